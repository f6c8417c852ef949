// Inputs and answers that all activities of this folder share. Not for others.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox-runtime/manager/manager.h"

namespace sandglass::sandbox_runtime::manager {

using Json = nlohmann::json;

/// The fields that activities of this folder read have the types that they are read with.
bool is_well_formed(const Json& input);
inline std::string sandbox_of(const Json& input) {
  return input.value("sandbox", "");
}
provider::SandboxRef ref_of(const Json& input);

core::ActivityResult done(const Json& result);
/// The error as the end of an attempt at something inside a sandbox.
core::ActivityResult failed(const base::Error& error);
core::ActivityResult invalid(std::string message);

/// Valid UTF-8: bad bytes become U+FFFD.
std::string as_text(std::string_view bytes);
/// At most `most` bytes: head and tail with a line between them that says how much is left out.
std::string head_and_tail(std::string_view bytes, std::uint64_t total, std::size_t most);

/// How many bytes of a result hold what a command, a file's text or a list of names shows. All of them
/// together stay below what a record may have, whatever the bytes are: JSON writes a control character in
/// six.
inline constexpr std::size_t kShownJson = 64 * 1024;
/// Bytes of the text in JSON. `text` is UTF-8.
std::size_t json_size(std::string_view text);
/// The first names, as many as fit into `most` bytes of JSON.
Json first_names(const std::vector<std::string>& names, std::size_t most);

/// An activity that is a function of its parsed input. `run` answers exactly once, from any thread.
template <class Run>
class FunctionActivity : public core::Activity {
 public:
  explicit FunctionActivity(Run run) : run_(std::move(run)) {}
  void start(core::ActivityCall call, core::ActivityDone answer) override {
    auto input = Json::parse(
        call.input == nullptr ? std::string_view("{}") : std::string_view(call.input->bytes), nullptr,
        /*allow_exceptions=*/false);
    if (!is_well_formed(input)) return answer(invalid("a field of the input has a wrong type"));
    run_(call, std::move(input), std::move(answer));
  }
  void cancel(const core::StreamId&, const std::string&, const core::Token&) override {}  // short; let it end

 private:
  Run run_;
};

template <class Run>
std::shared_ptr<core::Activity> make_activity(Run run) {
  return std::make_shared<FunctionActivity<Run>>(std::move(run));
}

}  // namespace sandglass::sandbox_runtime::manager
