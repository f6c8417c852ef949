// What librdkafka's errors mean to the person who runs the engine: one code of ours, and what to do.
#pragma once

#include <librdkafka/rdkafka.h>

#include <mutex>
#include <optional>
#include <string>

#include "engine/base/result.h"
#include "engine/journal/kafka/cluster/settings.h"

namespace sandglass::engine::journal::kafka::cluster {

/// `doing`: what was tried, as "to read the settings of topic history". `detail`: the broker's or the
/// client's words.
base::Error error_of(rd_kafka_resp_err_t error, const std::string& doing, const std::string& detail = {});

/// Calls that time out do not say why. A client says it beside them, again and again, while it tries to
/// connect; this keeps the newest reason. It must outlive the client. Thread rule: any thread.
class Trouble {
 public:
  /// Sets the configuration's opaque pointer and error callback, which rd_kafka_poll serves. From here on
  /// this has what the client struggles with; its own lines, one for each attempt, are for debugging.
  void attach(rd_kafka_conf_t* conf);

  /// The brokers have answered, and refuse who or how we are: waiting longer changes nothing.
  bool refused() const;
  /// What was heard since the last `clear`; nothing: all is well, as far as is known.
  std::optional<base::Error> last(const std::string& doing) const;
  /// Something has succeeded.
  void clear();
  /// The error of a call that got `error`: with the reason, where the client has told one.
  base::Error explain(rd_kafka_resp_err_t error, const std::string& doing) const;

 private:
  void heard(rd_kafka_resp_err_t error, const char* reason);

  mutable std::mutex mutex_;
  rd_kafka_resp_err_t error_ = RD_KAFKA_RESP_ERR_NO_ERROR;
  std::string reason_;
};

}  // namespace sandglass::engine::journal::kafka::cluster
