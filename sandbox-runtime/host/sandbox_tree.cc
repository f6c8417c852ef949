// Trees on their way through: the bytes are relayed unread, within the window that both ends keep.
#include <algorithm>

#include "engine/base/crash_point.h"
#include "sandbox-runtime/host/sandbox.h"
#include "sandbox-runtime/host/sandbox_tell.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;

void Sandbox::put_tree(const frame::v1::HostPutTree& request, CallRef call) {
  // what follows it at once could not be kept until then
  if (state_ == State::greeting || state_ == State::creating) {
    return around_.outbox.failed(call,
                                 {Code::unavailable, "sandbox " + spec_.id + " is not ready yet; retry"});
  }
  when_live(call, [this, path = request.path(), call] {
    const std::uint64_t id = ++last_transfer_;
    transfers_[id] = {call, true};
    SG_CRASH_POINT("host.put_opened");
    tell(frames::PutOpen{id, path, spec_.tmpl.limits.disk.value, spec_.tmpl.limits.inodes.value, false});
  });
}

void Sandbox::get_tree(const frame::v1::HostGetTree& request, CallRef call) {
  when_live(call, [this, path = request.path(), content = request.content(), call] {
    const std::uint64_t id = ++last_transfer_;
    transfers_[id] = {call, false};
    SG_CRASH_POINT("host.get_opened");
    const provider::Limits& limits = spec_.tmpl.limits;
    tell(frames::GetOpen{id, path, content, limits.disk.value, limits.inodes.value});
  });
}

std::uint64_t Sandbox::transfer_of(CallRef call) const {
  const auto found =
      std::ranges::find_if(transfers_, [&](const auto& item) { return item.second.call == call; });
  return found == transfers_.end() ? 0 : found->first;
}

void Sandbox::tree_chunk(CallRef call, const std::string& data) {
  const std::uint64_t id = transfer_of(call);
  if (id == 0) return;  // failed meanwhile; the rest of it is void
  transfers_[id].sent += data.size();
  for (std::size_t at = 0; at < data.size() && control_; at += frames::kChunk) {
    tell(frames::Chunk{id, std::string_view(data).substr(at, frames::kChunk)});
  }
}

void Sandbox::tree_ack(CallRef call, std::uint64_t offset) {
  const std::uint64_t id = transfer_of(call);
  if (id == 0) return;
  Transfer& transfer = transfers_[id];
  transfer.acked = std::max(transfer.acked, std::min(offset, transfer.sent));
  tell(frames::Ack{id, offset});
}

void Sandbox::cancel_tree(CallRef call) {
  const std::uint64_t id = transfer_of(call);
  if (id == 0) return;
  tell(frames::TransferCancel{id});
  transfers_.erase(id);
}

void Sandbox::on_chunk(const frames::Chunk& chunk) {
  const auto found = transfers_.find(chunk.id);
  if (found == transfers_.end() || found->second.put) return;
  Transfer& transfer = found->second;
  transfer.sent += chunk.bytes.size();
  if (transfer.sent - transfer.acked > frames::kTransferWindow + frames::kChunk) {
    return lost("its first process sends more of a tree than it may");
  }
  frame::v1::HostMessage message;
  message.mutable_tree_chunk()->set_data(chunk.bytes.data(), chunk.bytes.size());
  around_.outbox.send(found->second.call, std::move(message));
}

void Sandbox::on_ack(const frames::Ack& ack) {
  const auto found = transfers_.find(ack.id);
  if (found == transfers_.end() || !found->second.put || ack.offset <= found->second.acked) return;
  if (ack.offset > found->second.sent) return lost("its first process acknowledges what it was not sent");
  found->second.acked = ack.offset;
  frame::v1::HostMessage message;
  message.mutable_tree_ack()->set_offset(ack.offset);
  around_.outbox.send(found->second.call, std::move(message));
}

void Sandbox::on_transfer_done(const frames::TransferDone& done) {
  auto found = transfers_.extract(done.id);
  if (!found) return;
  const CallRef call = found.mapped().call;
  SG_CRASH_POINT("host.transfer_done");
  if (done.code != 0) return around_.outbox.failed(call, {static_cast<Code>(done.code), done.message});
  frame::v1::HostMessage message;
  message.mutable_tree_done()->set_entries(done.entries);
  message.mutable_tree_done()->set_bytes(done.bytes);
  around_.outbox.send(call, std::move(message));
}

}  // namespace sandglass::sandbox_runtime::host
