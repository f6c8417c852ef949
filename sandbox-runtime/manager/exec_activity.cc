// sandbox.exec: a command in a leased sandbox. A repeated attempt has the same key and attaches to the
// command that runs or has run; a cancel ends it.
#include <algorithm>
#include <map>
#include <mutex>

#include "sandbox-runtime/manager/answers.h"
#include "sandbox-runtime/manager/parts.h"

namespace sandglass::sandbox_runtime::manager {

namespace {

constexpr std::size_t kShown = 32 * 1024;  // of each stream in the result
constexpr std::size_t kMaxLog = 8 << 20;   // of both streams in the log blob

/// Everything that a command has printed, in the order in which it came.
struct Log {
  std::mutex mutex;
  std::string bytes;
  std::string head[2];  // of out and err
  bool cut = false;

  void add(const provider::OutputChunk& chunk) {
    const std::lock_guard lock(mutex);
    std::string& start = head[chunk.stream == provider::OutputStream::out ? 0 : 1];
    if (start.size() < kShown / 2 && chunk.offset == start.size()) {
      start += chunk.bytes.substr(0, kShown / 2 - start.size());
    }
    const std::size_t room = kMaxLog - bytes.size();
    cut = cut || chunk.bytes.size() > room;
    bytes += std::string_view(chunk.bytes).substr(0, room);
  }
};

std::string shown(std::string_view head, std::string_view kept, std::uint64_t total, std::size_t most) {
  if (total <= kept.size() || head.size() < kShown / 2) return head_and_tail(kept, total, most);
  head = head.substr(0, most / 2);
  const std::string_view tail = kept.substr(kept.size() - std::min(kept.size(), most / 2));
  return as_text(head) + "\n[... " + std::to_string(total - head.size() - tail.size()) +
         " bytes left out ...]\n" + as_text(tail);
}

struct Shown {
  std::string text;
  bool cut = false;
};

/// What the result shows of one stream: all of it, or its head and its tail; less of them where JSON makes
/// them long, so that no output can make the result too large for a record (FR-140).
Shown shown(std::string_view head, std::string_view kept, std::uint64_t total) {
  for (std::size_t most = kShown;; most /= 2) {
    std::string text = shown(head, kept, total, most);
    if (most < 1024 || json_size(text) <= kShownJson) return {std::move(text), total > most};
  }
}

Json result_of(const provider::ExecResult& result, const Log& log) {
  Json out;
  out["exit_code"] = result.exit_code;
  out["signal"] = result.signal;
  out["timed_out"] = result.timed_out;
  out["cancelled"] = result.cancelled;
  // who has not seen its beginning live has it from the result
  Shown shown_out = shown(log.head[0].empty() ? result.out_head : log.head[0], result.out, result.out_total);
  Shown shown_err = shown(log.head[1].empty() ? result.err_head : log.head[1], result.err, result.err_total);
  out["truncated"] = shown_out.cut || shown_err.cut;
  out["out"] = std::move(shown_out.text);
  out["err"] = std::move(shown_err.text);
  out["out_total"] = result.out_total;
  out["err_total"] = result.err_total;
  out["duration_ms"] = result.duration_ms;
  out["cpu_ms"] = result.cpu_ns / 1'000'000;
  out["memory_peak_bytes"] = result.memory_peak_bytes;
  out["limits_hit"] = Json::array();
  for (const provider::LimitHit& hit : result.limits_hit) {
    out["limits_hit"].push_back(
        {{"limit", provider::name_of(hit.kind)}, {"count", hit.count}, {"detail", as_text(hit.detail)}});
  }
  return out;
}

class ExecActivity final : public core::Activity {
 public:
  explicit ExecActivity(Parts parts) : parts_(std::move(parts)) {}

  void start(core::ActivityCall call, core::ActivityDone answer) override {
    const Json input = Json::parse(call.input == nullptr ? "{}" : call.input->bytes, nullptr, false);
    provider::ExecRequest request;
    if (!read(input, call, request))
      return answer(invalid(
          "exec needs \"argv\", a list of texts that is not empty, and \"env\", if given, as texts by name"));
    const provider::SandboxRef sandbox = ref_of(input);
    const std::string tenant = input.value("tenant", "");
    {
      const std::lock_guard lock(mutex_);
      running_[{call.stream, call.path}] = {call.token, sandbox, request.key};
    }
    auto log = std::make_shared<Log>();
    parts_->provider.exec(
        sandbox, std::move(request), [log](const provider::OutputChunk& chunk) { log->add(chunk); },
        [this, parts = parts_, log, tenant, name = Name{call.stream, call.path}, token = call.token,
         answer = std::move(answer)](base::Result<provider::ExecResult> result) mutable {
          forget(name, token);
          if (!result) return answer(failed(result.error()));
          auto finish = [parts, log, tenant, result = *std::move(result),
                         answer = std::move(answer)]() mutable {
            answer(keep_log(*parts, tenant, *log, result));
          };
          parts->runner.run(std::move(finish));
        });
  }

  void cancel(const core::StreamId& stream, const std::string& path, const core::Token& token) override {
    provider::SandboxRef sandbox;
    std::string key;
    {
      const std::lock_guard lock(mutex_);
      const auto found = running_.find({stream, path});
      if (found == running_.end() || found->second.token != token) return;
      sandbox = found->second.sandbox;
      key = found->second.key;
    }
    parts_->provider.kill_exec(sandbox, key, [](base::Result<void>) {});  // the exec's own answer tells
  }

 private:
  using Name = std::pair<core::StreamId, std::string>;
  struct Running {
    core::Token token;
    provider::SandboxRef sandbox;
    std::string key;
  };

  static bool read(const Json& input, const core::ActivityCall& call, provider::ExecRequest& request) {
    if (!is_well_formed(input)) return false;
    const auto argv = input.find("argv");
    if (argv == input.end() || !argv->is_array() || argv->empty()) return false;
    for (const Json& word : *argv) {
      if (!word.is_string()) return false;
      request.argv.push_back(word.get<std::string>());
    }
    if (const auto env = input.find("env"); env != input.end()) {
      if (!env->is_object()) return false;
      for (const auto& [name, value] : env->items()) {
        if (!value.is_string()) return false;
        request.env[name] = value.get<std::string>();
      }
    }
    request.key = call.key;
    request.cwd = input.value("cwd", "");
    request.stdin_bytes = input.value("stdin", "");
    const std::uint64_t wanted = input.value("timeout_ms", std::uint64_t{0});
    // The dispatcher's own limit comes a little later, so that the result says "timed out" and has the
    // output.
    const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(call.start_to_close_ms - 5'000, 0));
    request.limits.wall_ms = wanted == 0 ? most : most == 0 ? wanted : std::min(wanted, most);
    return true;
  }

  static core::ActivityResult keep_log(const ManagerParts& parts, const std::string& tenant, const Log& log,
                                       const provider::ExecResult& result) {
    const std::string bytes =
        log.bytes.empty() ? result.out_head + result.out + result.err_head + result.err : log.bytes;
    auto digest = parts.blobs.put(tenant, bytes);
    if (!digest) return failed(digest.error());
    Json out = result_of(result, log);
    out["log"] = digest->hash.hex();
    out["log_size"] = bytes.size();
    out["log_truncated"] = log.cut || (log.bytes.empty() && result.truncated());
    return done(out);
  }

  void forget(const Name& name, const core::Token& token) {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(name);
    if (found != running_.end() && found->second.token == token) running_.erase(found);
  }

  Parts parts_;
  std::mutex mutex_;
  std::map<Name, Running> running_;
};

}  // namespace

void register_exec_activity(core::ActivityRegistry& registry, const Parts& parts) {
  registry.add("sandbox.exec", std::make_shared<ExecActivity>(parts));
}

}  // namespace sandglass::sandbox_runtime::manager
