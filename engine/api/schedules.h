// The calls about schedules. The names that a caller uses are those of its tenant.
#pragma once

#include <functional>
#include <string>

#include "engine/api/answer.h"
#include "engine/api/backend.h"
#include "engine/api/methods.h"
#include "engine/base/hash.h"

namespace sandglass::engine::api {

/// A changing call: its request id, and the digest of the whole request.
struct Changing {
  std::string request_id;
  base::Hash256 digest;
};

/// Thread rule: any thread; nothing blocks the caller.
class Schedules {
 public:
  using Submit =
      std::function<void(const core::StreamId&, core::CommandPtr, const Changing&, Answer<v1::CommandReply>)>;

  Schedules(const Backend& backend, Submit submit) : backend_(backend), submit_(std::move(submit)) {}

  void create(const Caller& caller, const v1::CreateScheduleRequest& request, const Changing& changing,
              Answer<v1::CommandReply> answer);
  void update(const Caller& caller, const v1::UpdateScheduleRequest& request, const Changing& changing,
              Answer<v1::CommandReply> answer);
  void pause(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
             Answer<v1::CommandReply> answer);
  void resume(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
              Answer<v1::CommandReply> answer);
  void remove(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
              Answer<v1::CommandReply> answer);
  void trigger(const Caller& caller, const v1::ScheduleRequest& request, const Changing& changing,
               Answer<v1::CommandReply> answer);
  void backfill(const Caller& caller, const v1::BackfillScheduleRequest& request, const Changing& changing,
                Answer<v1::CommandReply> answer);
  void get(const Caller& caller, const v1::GetScheduleRequest& request, Answer<v1::ScheduleDetail> answer);
  void list(const Caller& caller, const v1::ListSchedulesRequest& request,
            Answer<v1::ListSchedulesReply> answer);

 private:
  const Backend& backend_;
  const Submit submit_;
};

/// Blocking. Rows of the list, partition by partition.
base::Result<v1::ListSchedulesReply> list_schedules(const view::View& view, std::uint16_t partitions,
                                                    const Caller& caller,
                                                    const v1::ListSchedulesRequest& request);

}  // namespace sandglass::engine::api
