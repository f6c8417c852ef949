#include "sandbox-runtime/manager/answers.h"

#include "engine/base/text.h"

namespace sandglass::sandbox_runtime::manager {

bool is_well_formed(const Json& input) {
  if (!input.is_object()) return false;
  for (const char* name :
       {"sandbox", "tenant", "template", "path", "to", "tree", "content", "cwd", "stdin"}) {
    if (input.contains(name) && !input[name].is_string()) return false;
  }
  for (const char* name : {"fence", "token", "ttl_ms", "timeout_ms"}) {
    if (input.contains(name) && !input[name].is_number_unsigned()) return false;
  }
  return !input.contains("executable") || input["executable"].is_boolean();
}

provider::SandboxRef ref_of(const Json& input) {
  return {.id = sandbox_of(input), .fence = input.value("fence", std::uint64_t{0})};
}

core::ActivityResult done(const Json& result) {
  return {.outcome = core::Outcome::done, .encoding = core::Encoding::json, .bytes = result.dump()};
}

core::ActivityResult failed(const base::Error& error) {
  core::ActivityResult result{
      .outcome = core::Outcome::not_done, .code = error.code, .message = as_text(error.message)};
  switch (error.code) {
    case base::Code::sandbox_lost:
    case base::Code::lease_fenced:
      result.code = base::Code::sandbox_lost;  // for this run it is gone either way
      result.side = core::FailureSide::platform;
      break;
    case base::Code::host_unreachable:
    case base::Code::unavailable:
    case base::Code::io_error:
    case base::Code::provider_failed:
      result.side = core::FailureSide::platform;
      result.retryable = true;
      break;
    case base::Code::blob_missing:
    case base::Code::disk_full:
    case base::Code::limit_unenforceable:
    case base::Code::frame_malformed:
    case base::Code::internal:
      result.side = core::FailureSide::platform;
      break;
    default:
      break;  // what the caller asked for cannot be done: path_refused, exec_conflict, invalid_argument …
  }
  return result;
}

core::ActivityResult invalid(std::string message) {
  return {.outcome = core::Outcome::not_done,
          .code = base::Code::arguments_invalid,
          .message = std::move(message)};
}

std::string as_text(std::string_view bytes) {
  if (base::is_utf8(bytes)) return std::string(bytes);
  std::string out;
  while (!bytes.empty()) {
    std::size_t length = 1;
    while (length < 4 && length < bytes.size() && !base::is_utf8(bytes.substr(0, length))) ++length;
    const std::string_view piece = bytes.substr(0, length);
    if (base::is_utf8(piece)) {
      out += piece;
    } else {
      out += "\xEF\xBF\xBD";
      length = 1;
    }
    bytes.remove_prefix(length);
  }
  return out;
}

std::string head_and_tail(std::string_view bytes, std::uint64_t total, std::size_t most) {
  if (bytes.size() <= most && total <= bytes.size()) return as_text(bytes);
  const std::size_t half = std::min(most, bytes.size()) / 2;
  const std::uint64_t left_out = total - 2 * half;
  return as_text(bytes.substr(0, half)) + "\n[... " + std::to_string(left_out) + " bytes left out ...]\n" +
         as_text(bytes.substr(bytes.size() - half));
}

std::size_t json_size(std::string_view text) {
  return Json(text).dump().size();
}

Json first_names(const std::vector<std::string>& names, std::size_t most) {
  Json out = Json::array();
  std::size_t used = 0;
  for (const std::string& name : names) {
    std::string text = as_text(name);
    used += json_size(text) + 1;
    if (used > most) break;
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace sandglass::sandbox_runtime::manager
