#include "engine/journal/kafka/cluster/trouble.h"

#include "engine/base/log.h"

namespace sandglass::engine::journal::kafka::cluster {

namespace {

struct Meaning {
  base::Code code;
  const char* what;
};

Meaning meaning_of(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM:
    case RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE:
      return {base::Code::brokers_refuse_us,
              "the brokers refuse the login: check sasl.mechanism, sasl.username and sasl.password"};
    case RD_KAFKA_RESP_ERR__SSL:
      return {
          base::Code::brokers_refuse_us,
          "no encrypted connection comes about: check ssl.ca.location, and ssl.certificate.location if the "
          "brokers ask for a certificate"};
    case RD_KAFKA_RESP_ERR__RESOLVE:
      return {base::Code::brokers_unreachable,
              "a broker's name cannot be resolved: check the bootstrap servers"};
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
      return {base::Code::brokers_unreachable,
              "no broker answers: check that they run, the bootstrap servers and security.protocol"};
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      return {base::Code::brokers_forbid,
              "our user needs Describe, DescribeConfigs, Read and Write on the topic"};
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
      return {base::Code::brokers_forbid,
              "our user needs DescribeConfigs on the cluster, and Create where the topic is to be made"};
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
      return {base::Code::brokers_forbid, "our user needs Describe and Write on the transactional id"};
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
      return {base::Code::brokers_forbid, "our user needs Read on the consumer group"};
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return {base::Code::topic_missing, "the topic does not exist"};
    default:
      return {base::Code::unavailable, rd_kafka_err2str(error)};
  }
}

}  // namespace

base::Error error_of(rd_kafka_resp_err_t error, const std::string& doing, const std::string& detail) {
  Meaning meaning = meaning_of(error);
  // Whether a plain port that is spoken to in TLS fails the handshake or just hangs up is a matter of chance.
  if (meaning.code == base::Code::brokers_unreachable && detail.find("SSL routines") != std::string::npos) {
    meaning.what =
        "no encrypted connection comes about: check the bootstrap servers, whether that port speaks TLS, and "
        "security.protocol";
  }
  return {meaning.code,
          "Kafka: could not " + doing + ": " + meaning.what + (detail.empty() ? "" : " (" + detail + ")")};
}

void Trouble::attach(rd_kafka_conf_t* conf) {
  rd_kafka_conf_set_opaque(conf, this);
  rd_kafka_conf_set_log_cb(
      conf, [](const rd_kafka_t* /*client*/, int /*level*/, const char* facility, const char* text) {
        base::log(base::LogLevel::debug, "kafka_client", {{"facility", facility}, {"text", text}});
      });
  rd_kafka_conf_set_error_cb(conf, [](rd_kafka_t* /*client*/, int error, const char* reason, void* self) {
    static_cast<Trouble*>(self)->heard(static_cast<rd_kafka_resp_err_t>(error), reason);
  });
}

void Trouble::heard(rd_kafka_resp_err_t error, const char* reason) {
  const std::lock_guard lock(mutex_);
  // "All brokers are down" only sums up what was told of each of them before.
  if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && error_ != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  error_ = error;
  reason_ = reason;
}

bool Trouble::refused() const {
  const std::lock_guard lock(mutex_);
  return meaning_of(error_).code == base::Code::brokers_refuse_us;
}

std::optional<base::Error> Trouble::last(const std::string& doing) const {
  const std::lock_guard lock(mutex_);
  if (error_ == RD_KAFKA_RESP_ERR_NO_ERROR) return std::nullopt;
  return error_of(error_, doing, reason_);
}

void Trouble::clear() {
  const std::lock_guard lock(mutex_);
  error_ = RD_KAFKA_RESP_ERR_NO_ERROR;
  reason_.clear();
}

base::Error Trouble::explain(rd_kafka_resp_err_t error, const std::string& doing) const {
  const std::lock_guard lock(mutex_);
  const bool silent = meaning_of(error).code == base::Code::brokers_unreachable;
  if (silent && error_ != RD_KAFKA_RESP_ERR_NO_ERROR) return error_of(error_, doing, reason_);
  return error_of(error, doing);
}

}  // namespace sandglass::engine::journal::kafka::cluster
