// What a workflow answers while it runs: queries, about its present state, and updates, which it may refuse,
// and which change it and have a result. A handler is registered by Context::on_query and on_update and lives
// in the frame of the coroutine that has what its code reads.
//
// Thread rule: the workflow's own. Errors: values; what code throws is an error of that query or update, and
// the run goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/workflow/task.h"

namespace sandglass::engine::core {
struct Question;
}

namespace sandglass::engine::workflow {

using Json = nlohmann::json;
using base::Result;
using base::Status;

class Context;
class Handlers;
class Instance;

class [[nodiscard]] QueryHandler {
 public:
  using Code = std::function<Result<Json>(const Json& input)>;

  QueryHandler(Handlers& handlers, std::string name, Code code);
  ~QueryHandler();
  QueryHandler(const QueryHandler&) = delete;
  QueryHandler& operator=(const QueryHandler&) = delete;

 private:
  friend class Handlers;
  Handlers& handlers_;
  const std::string name_;
  const Code code_;
};

class [[nodiscard]] UpdateHandler {
 public:
  using Check = std::function<Status(const Json& input)>;
  using Code = std::function<Task<Result<Json>>(Context&, Json input)>;

  /// An empty check agrees to everything.
  UpdateHandler(Handlers& handlers, std::string name, Check check, Code code);
  ~UpdateHandler();
  UpdateHandler(const UpdateHandler&) = delete;
  UpdateHandler& operator=(const UpdateHandler&) = delete;

 private:
  friend class Handlers;
  Handlers& handlers_;
  const std::string name_;
  const Check check_;
  const Code code_;
};

/// The handlers of one run, and the updates that are being carried out. Internal to engine/workflow.
class Handlers {
 public:
  explicit Handlers(Instance& instance);
  ~Handlers();

  // Of two handlers with one name the newer one counts.
  void add(const QueryHandler& handler) { queries_[handler.name_] = &handler; }
  void add(const UpdateHandler& handler) { updates_[handler.name_] = &handler; }
  void remove(const QueryHandler& handler);
  void remove(const UpdateHandler& handler);

  /// History is about to be repeated for this question of a run that has ended. Null: it is no more.
  void expect(const core::Question* question);
  /// JSON; of a consent nothing. Errors: query_unknown, query_failed, update_unknown, update_refused, or what
  /// a query's code said.
  Result<std::string> answer(const core::Question& question);
  /// Whether what asks for something now is code that must not; it is then an error of its question.
  bool forbids();
  bool spoiled() const { return spoiled_; }

  /// False: nobody takes it.
  bool start(std::uint64_t number, std::string_view name, Json input);
  bool busy() const { return !running_.empty(); }
  /// Lets go of updates that were carried out.
  void reap();
  /// The run's frames are about to go, with nothing to be said about it.
  void forget() { forgotten_ = true; }

 private:
  struct Running;

  Result<std::string> answer_query(const QueryHandler& handler, const Json& input);
  Result<std::string> answer_consent(const core::Question& question);
  template <class Code>
  Result<std::string> guarded(std::string_view what, base::Code failed, Code code);
  Task<void> carry_out(Running& update, Json input);

  Instance& instance_;
  std::map<std::string, const QueryHandler*, std::less<>> queries_;
  std::map<std::string, const UpdateHandler*, std::less<>> updates_;
  std::list<std::unique_ptr<Running>> running_;
  const core::Question* expected_ = nullptr;
  std::optional<Result<std::string>> farewell_;
  bool asking_ = false;
  bool forbidden_ = false;
  bool spoiled_ = false;
  bool forgotten_ = false;
};

}  // namespace sandglass::engine::workflow
