#include <algorithm>

#include "engine/base/hash.h"
#include "sandbox-runtime/client/call.h"
#include "sandbox-runtime/frames/init_protocol.h"

namespace sandglass::sandbox_runtime::client {

using engine::base::Error;

namespace {

constexpr std::uint64_t kDefaultKept = std::uint64_t{8} << 20;
constexpr std::size_t kHead = std::size_t{16} << 10;  // of each stream that is cut
constexpr std::uint64_t kTellEvery = frames::kOutputWindow / 4;

/// The same command has the same digest, in every process and version that lays it out like this.
std::string digest_of(const provider::ExecRequest& request) {
  engine::base::Sha256 hash;
  const auto add = [&](std::string_view text) { hash.update_u64(text.size()).update(text); };
  add("sandglass exec 1");
  hash.update_u64(request.argv.size());
  for (const std::string& argument : request.argv) add(argument);
  hash.update_u64(request.env.size());
  for (const auto& [name, value] : request.env) {
    add(name);
    add(value);
  }
  add(request.cwd);
  add(request.stdin_bytes);
  for (std::uint64_t limit : {request.limits.memory_bytes, std::uint64_t{request.limits.pids},
                              request.limits.wall_ms, request.limits.cpu_ms, request.limits.output_bytes}) {
    hash.update_u64(limit);
  }
  return std::string(hash.finish().view());
}

/// One output stream as it arrives.
struct Follow {
  std::uint64_t reached = 0;  // offset of the next byte
  std::uint64_t told = 0;     // offset that the host was told last
  std::string head;
  std::string tail;
  bool at_end = false;

  /// Nothing more comes: all of it is here, or what is missing was dropped.
  bool whole(std::uint64_t total) const { return at_end || reached >= total; }
  void add(std::uint64_t offset, std::string_view bytes, std::uint64_t keep) {
    if (offset == head.size() && head.size() < kHead) head.append(bytes.substr(0, kHead - head.size()));
    if (offset > reached) tail.clear();  // a gap: what came before does not join what comes now
    tail.append(bytes);
    // trimmed in large steps: erasing from the front moves what is left
    if (tail.size() > 2 * keep) tail.erase(0, tail.size() - keep);
  }
  /// Moves out what is kept: all of it as `last`, or as much of both ends as `keep` allows.
  void take(std::uint64_t keep, std::uint64_t total, std::string& first, std::string& last) {
    if (tail.size() < total || total > keep) {
      head.resize(std::min<std::uint64_t>(head.size(), keep / 4));
      const std::uint64_t most = std::min(keep, std::max<std::uint64_t>(total, head.size())) - head.size();
      if (tail.size() > most) tail.erase(0, tail.size() - most);
      first = std::move(head);
    }
    last = std::move(tail);
  }
};

class ExecCall final : public Call {
 public:
  ExecCall(provider::SandboxRef sandbox, provider::ExecRequest request, provider::OutputCallback on_output,
           provider::Answer<provider::ExecResult> answer)
      : on_output_(std::move(on_output)), answer_(std::move(answer)) {
    keep_ = request.limits.output_bytes == 0 ? kDefaultKept : request.limits.output_bytes;
    auto& exec = *request_.mutable_exec();
    exec.set_id(sandbox.id);
    exec.set_fence(sandbox.fence);
    exec.set_key(request.key);
    exec.set_digest(digest_of(request));
    for (const std::string& argument : request.argv) exec.add_argv(argument);
    for (const auto& [name, value] : request.env) {
      auto& variable = *exec.add_env();
      variable.set_name(name);
      variable.set_value(value);
    }
    exec.set_cwd(request.cwd);
    exec.set_stdin(std::move(request.stdin_bytes));
    auto& limits = *exec.mutable_limits();
    limits.set_memory_bytes(request.limits.memory_bytes);
    limits.set_pids(request.limits.pids);
    limits.set_wall_ms(request.limits.wall_ms);
    limits.set_cpu_ms(request.limits.cpu_ms);
    limits.set_output_bytes(request.limits.output_bytes);
  }

  frame::v1::HostRequest request() override {
    request_.mutable_exec()->set_out_offset(out_.reached);
    request_.mutable_exec()->set_err_offset(err_.reached);
    out_.at_end = err_.at_end = false;
    return request_;
  }

  bool on(const frame::v1::HostMessage& message, const Send& send) override {
    if (message.has_exec_output()) take_output(message.exec_output(), send);
    if (message.has_exec_done()) done_ = message.exec_done();
    if (!done_ || !out_.whole(done_->out_total()) || !err_.whole(done_->err_total())) return false;
    conclude();
    return true;
  }

  void fail(Error error) override { answer_(std::unexpected(std::move(error))); }

 private:
  void take_output(const frame::v1::HostExecOutput& output, const Send& send) {
    Follow& stream = output.stream() == 1 ? out_ : err_;
    const std::uint64_t end = output.offset() + output.data().size();
    if (output.data().empty()) {
      stream.reached = std::max(stream.reached, output.offset());
      stream.at_end = true;
      return;
    }
    if (end <= stream.reached) return;  // known already
    std::string_view fresh = output.data();
    std::uint64_t offset = output.offset();
    if (offset < stream.reached) {
      fresh.remove_prefix(stream.reached - offset);
      offset = stream.reached;
    }
    stream.add(offset, fresh, keep_);
    stream.reached = end;
    if (on_output_) {
      on_output_({output.stream() == 1 ? provider::OutputStream::out : provider::OutputStream::err, offset,
                  std::string(fresh)});
    }
    if (stream.reached - stream.told < kTellEvery) return;
    stream.told = stream.reached;
    frame::v1::HostRequest taken;
    taken.mutable_exec_taken()->set_stream(output.stream());
    taken.mutable_exec_taken()->set_taken(stream.reached);
    send(std::move(taken));
  }

  void conclude() {
    provider::ExecResult result;
    result.exit_code = done_->exit_code();
    result.signal = done_->signal();
    result.timed_out = done_->timed_out();
    result.cancelled = done_->cancelled();
    out_.take(keep_, done_->out_total(), result.out_head, result.out);
    err_.take(keep_, done_->err_total(), result.err_head, result.err);
    result.out_total = done_->out_total();
    result.err_total = done_->err_total();
    result.duration_ms = done_->duration_ms();
    result.cpu_ns = done_->cpu_ns();
    result.memory_peak_bytes = done_->memory_peak_bytes();
    result.background = done_->background();
    for (const auto& hit : done_->limits_hit()) {
      result.limits_hit.push_back({static_cast<provider::LimitKind>(hit.kind()), hit.count(), hit.detail()});
    }
    answer_(std::move(result));
  }

  frame::v1::HostRequest request_;
  provider::OutputCallback on_output_;
  provider::Answer<provider::ExecResult> answer_;
  std::uint64_t keep_ = 0;
  Follow out_, err_;
  std::optional<frame::v1::HostExecDone> done_;
};

}  // namespace

std::unique_ptr<Call> exec_call(provider::SandboxRef sandbox, provider::ExecRequest request,
                                provider::OutputCallback on_output,
                                provider::Answer<provider::ExecResult> answer) {
  return std::make_unique<ExecCall>(std::move(sandbox), std::move(request), std::move(on_output),
                                    std::move(answer));
}

}  // namespace sandglass::sandbox_runtime::client
