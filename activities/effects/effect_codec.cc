#include "activities/effects/effect_codec.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "engine/net/codec/network_codec.h"

namespace sandglass::activities::effects {
namespace {

namespace base = engine::base;
using base::Code;
using base::fail;
using engine::core::EffectResult;
using engine::core::Outcome;

/// Of a permit and of an attempt: a month.
constexpr std::int64_t longest_ms = std::int64_t{31} * 24 * 3600 * 1000;

base::Result<base::UniqueFd> to_memfd(const std::string& bytes) {
  base::UniqueFd fd(::memfd_create("sandglass-effect-body", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::size_t written = 0;
  while (fd && written < bytes.size()) {
    const ssize_t count = ::write(fd.get(), bytes.data() + written, bytes.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (!fd || written < bytes.size() || ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) {
    return fail(Code::io_error,
                std::string("the effect's body cannot be handed over: ") + std::strerror(errno));
  }
  return fd;
}

base::Result<std::string> from_memfd(const base::UniqueFd& fd) {
  struct stat about{};
  if (!fd || ::fstat(fd.get(), &about) != 0 || about.st_size < 0 ||
      static_cast<std::size_t>(about.st_size) > max_body_bytes) {
    return fail(Code::invalid_argument, "the effect's body is missing or larger than 64 MiB");
  }
  std::string bytes(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count =
        ::pread(fd.get(), bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (count <= 0) return fail(Code::io_error, "the effect's body cannot be read");
    have += static_cast<std::size_t>(count);
  }
  return bytes;
}

pb::EffectOutcome to_frame(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return pb::EFFECT_OUTCOME_DONE;
    case Outcome::not_done:
      return pb::EFFECT_OUTCOME_NOT_DONE;
    case Outcome::unknown:
      break;
  }
  return pb::EFFECT_OUTCOME_UNKNOWN;
}

Outcome from_frame(pb::EffectOutcome outcome) {
  if (outcome == pb::EFFECT_OUTCOME_DONE) return Outcome::done;
  if (outcome == pb::EFFECT_OUTCOME_NOT_DONE) return Outcome::not_done;
  return Outcome::unknown;
}

}  // namespace

base::Result<pb::EffectCommand> to_frame(const TimedIntent& timed, base::UniqueFd& body) {
  const engine::core::EffectIntent& intent = timed.intent;
  if (intent.body.size() > max_body_bytes)
    return fail(Code::invalid_argument, "the effect's body is over 64 MiB");
  pb::EffectCommand command;
  pb::EffectIntentFrame& frame = *command.mutable_intent();
  frame.set_id(intent.id);
  frame.set_method(intent.method);
  frame.set_url(intent.url);
  for (const auto& [name, value] : intent.headers) {
    auto& header = *frame.add_headers();
    header.set_name(name);
    header.set_value(value);
  }
  if (intent.body.size() > inline_body_bytes) {
    auto made = to_memfd(intent.body);
    if (!made) return std::unexpected(made.error());
    body = std::move(*made);
    frame.set_body_in_fd(true);
  } else {
    frame.set_body(intent.body);
  }
  frame.set_submitted_ns(timed.submitted_ns);
  frame.set_permit_ms(intent.permit_ms);
  frame.set_attempt_timeout_ms(intent.attempt_timeout_ms);
  frame.set_max_response_bytes(std::min(intent.max_response_bytes, max_response_bytes));
  if (command.ByteSizeLong() > max_frame_bytes) {
    return fail(Code::invalid_argument, "the effect's URL and headers are over 8 MiB");
  }
  return command;
}

base::Result<TimedIntent> from_frame(const pb::EffectIntentFrame& frame, base::UniqueFd body) {
  const auto is_time = [](std::int64_t ms) { return ms >= 0 && ms <= longest_ms; };
  if (!is_time(frame.permit_ms()) || !is_time(frame.attempt_timeout_ms()) || frame.submitted_ns() < 0) {
    return fail(Code::invalid_argument, "the effect's times are out of range");
  }
  TimedIntent timed;
  timed.submitted_ns = frame.submitted_ns();
  timed.intent.id = frame.id();
  timed.intent.method = frame.method();
  timed.intent.url = frame.url();
  for (const auto& header : frame.headers()) timed.intent.headers.emplace_back(header.name(), header.value());
  timed.intent.body = frame.body();
  timed.intent.permit_ms = frame.permit_ms();
  timed.intent.attempt_timeout_ms = frame.attempt_timeout_ms();
  timed.intent.max_response_bytes = std::min(frame.max_response_bytes(), max_response_bytes);
  if (!frame.body_in_fd()) return timed;
  auto bytes = from_memfd(body);
  if (!bytes) return std::unexpected(bytes.error());
  timed.intent.body = std::move(*bytes);
  return timed;
}

pb::EffectMessage to_frame(const Attempt& attempt) {
  pb::EffectMessage message;
  pb::EffectResultFrame& frame = *message.mutable_result();
  const EffectResult& result = attempt.result;
  frame.set_id(result.id);
  frame.set_outcome(to_frame(result.outcome));
  frame.set_http_status(result.http_status);
  for (const auto& [name, value] : result.headers) {
    auto& header = *frame.add_headers();
    header.set_name(name);
    header.set_value(value);
  }
  frame.set_body(result.body);
  frame.set_truncated(result.truncated);
  frame.set_code(static_cast<std::uint32_t>(result.code));
  frame.set_message(result.message);
  *frame.mutable_verdict() = engine::net::codec::to_frame(attempt.verdict);
  return message;
}

EffectResult from_frame(const pb::EffectResultFrame& frame) {
  EffectResult result;
  result.id = frame.id();
  result.outcome = from_frame(frame.outcome());
  result.http_status = frame.http_status();
  for (const auto& header : frame.headers()) result.headers.emplace_back(header.name(), header.value());
  result.body = frame.body();
  result.truncated = frame.truncated();
  result.code = static_cast<base::Code>(frame.code());
  result.message = frame.message();
  if (frame.has_verdict()) result.verdict = engine::net::codec::from_frame(frame.verdict()).json();
  return result;
}

}  // namespace sandglass::activities::effects
