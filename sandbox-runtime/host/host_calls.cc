// The calls of the engine, one by one.
#include "engine/base/crash_point.h"
#include "engine/base/log.h"
#include "sandbox-runtime/host/convert.h"
#include "sandbox-runtime/host/host.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;
using engine::base::Error;
using frame::v1::HostRequest;

std::shared_ptr<Sandbox> Host::make(const frame::v1::HostSandboxRecord& record, provider::SandboxSpec spec) {
  SandboxHooks hooks;
  hooks.keep = [this](const frame::v1::HostSandboxRecord& changed) {
    if (auto status = records_->keep(changed); !status) {
      engine::base::log(engine::base::LogLevel::error, "record_not_kept",
                        {{"reason", status.error().message}});
    }
  };
  hooks.gone = [this](const std::string& id) {
    records_->forget(id);
    // it is in the middle of its own work
    loop_.post([this, id, last = sandboxes_.extract(id)] {
      if (shutting_down_ && sandboxes_.empty()) loop_.stop();
    });
  };
  const std::string id = spec.id;
  auto sandbox = std::make_shared<Sandbox>(Surroundings{loop_, pool_, launcher_, *this, egress_, packet_},
                                           std::move(hooks), std::move(spec), record);
  sandboxes_[id] = sandbox;
  return sandbox;
}

std::shared_ptr<Sandbox> Host::authorised(const std::string& id, std::uint64_t fence, CallRef call) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    failed(call, {Code::sandbox_lost, "this host knows no sandbox " + id});
    return nullptr;
  }
  if (auto status = found->second->check_fence(fence); !status) {
    failed(call, status.error());
    return nullptr;
  }
  return found->second;
}

void Host::create(const frame::v1::HostCreate& request, CallRef call) {
  auto spec = spec_of(request);
  if (!spec) return failed(call, spec.error());
  if (shutting_down_) return failed(call, {Code::unavailable, "the sandbox host is stopping"});
  if (const auto known = sandboxes_.find(spec->id); known != sandboxes_.end()) {
    if (auto status = known->second->check_fence(request.fence()); !status)
      return failed(call, status.error());
    return known->second->create_again(request, call);
  }
  if (sandboxes_.size() >= options_.max_sandboxes) {
    return failed(call, {Code::overloaded, "this host has as many sandboxes as it may have"});
  }
  if (auto status = provider::check_support(spec->tmpl.limits, launcher_.support()); !status) {
    return failed(call, status.error());
  }
  frame::v1::HostSandboxRecord record;
  *record.mutable_create() = request;
  record.set_fence(request.fence());
  record.set_expires_at_ms(request.expires_at_ms());
  record.set_created_at_ms(loop_.now() / 1'000'000);
  if (auto status = records_->keep(record); !status) return failed(call, status.error());
  SG_CRASH_POINT("host.recorded");
  make(record, std::move(*spec))->create(call);
}

void Host::destroy(const frame::v1::HostDestroy& request, CallRef call) {
  const auto known = sandboxes_.find(request.id());
  if (known != sandboxes_.end()) {
    if (auto status = known->second->check_fence(request.fence()); !status)
      return failed(call, status.error());
    const auto sandbox = known->second;
    return sandbox->end({Code::cancelled, "it was destroyed"}, call);
  }
  // it is gone for this host; whether anything of it is left on the machine is verified all the same
  auto status = std::make_shared<engine::base::Status>();
  pool_.run([this, id = request.id(), call, status] {
    *status = launcher_.destroy(id);
    loop_.post([this, call, status] { *status ? done(call) : failed(call, status->error()); });
  });
}

void Host::inventory(CallRef call) {
  frame::v1::HostMessage message;
  message.mutable_inventory();
  for (const auto& [id, sandbox] : sandboxes_) {
    auto& item = *message.mutable_inventory()->add_items();
    item.set_id(id);
    item.set_fence(sandbox->fence());
    item.set_alive(sandbox->alive());
    item.set_expires_at_ms(sandbox->expires_at_ms());
  }
  send(call, std::move(message));
}

/// Found by doing, so it takes a while.
void Host::features(CallRef call) {
  pool_.run([this, call] {
    frame::v1::HostMessage message;
    message.mutable_features();
    for (const provider::Feature& feature : launcher_.features()) {
      auto& out = *message.mutable_features()->add_features();
      out.set_name(feature.name);
      out.set_strength(static_cast<std::uint32_t>(feature.strength));
      out.set_detail(feature.detail);
      out.set_remedy(feature.remedy);
    }
    loop_.post([this, call, message = std::move(message)]() mutable { send(call, std::move(message)); });
  });
}

/// For the messages that belong to a stream that an earlier call has opened.
void Host::route(CallRef call, const std::function<void(Sandbox&)>& what) {
  const auto opened = call_sandbox_.find(call.call);
  if (opened == call_sandbox_.end()) return;
  if (const auto found = sandboxes_.find(opened->second); found != sandboxes_.end()) what(*found->second);
}

void Host::dispatch(const HostRequest& request, CallRef call) {
  if (call.connection != engine_ && !request.has_hello()) {
    return close_connection(call.connection, "it did not say hello first");
  }
  const auto with = [&](const auto& body, auto&& what) {
    if (auto sandbox = authorised(body.id(), body.fence(), call)) what(*sandbox);
  };
  const auto opening = [&](const auto& body, auto&& what) {
    auto sandbox = authorised(body.id(), body.fence(), call);
    if (!sandbox) return;
    call_sandbox_[call.call] = body.id();
    what(*sandbox);
  };
  switch (request.body_case()) {
    case HostRequest::kHello:
      return hello(request.hello(), call);
    case HostRequest::kCreate:
      return create(request.create(), call);
    case HostRequest::kDestroy:
      return destroy(request.destroy(), call);
    case HostRequest::kInventory:
      return inventory(call);
    case HostRequest::kFeatures:
      return features(call);
    case HostRequest::kRenew:
      return with(request.renew(), [&](Sandbox& sandbox) { sandbox.renew(request.renew(), call); });
    case HostRequest::kAllow:
      return with(request.allow(), [&](Sandbox& sandbox) { sandbox.allow(request.allow(), call); });
    case HostRequest::kKillExec:
      return with(request.kill_exec(),
                  [&](Sandbox& sandbox) { sandbox.kill_exec(request.kill_exec().key(), call); });
    case HostRequest::kExec:
      return opening(request.exec(), [&](Sandbox& sandbox) { sandbox.exec(request.exec(), call); });
    case HostRequest::kPutTree:
      return opening(request.put_tree(),
                     [&](Sandbox& sandbox) { sandbox.put_tree(request.put_tree(), call); });
    case HostRequest::kGetTree:
      return opening(request.get_tree(),
                     [&](Sandbox& sandbox) { sandbox.get_tree(request.get_tree(), call); });
    case HostRequest::kExecTaken:
      return route(call, [&](Sandbox& sandbox) { sandbox.exec_taken(call, request.exec_taken()); });
    case HostRequest::kTreeChunk:
      return route(call, [&](Sandbox& sandbox) { sandbox.tree_chunk(call, request.tree_chunk().data()); });
    case HostRequest::kTreeAck:
      return route(call, [&](Sandbox& sandbox) { sandbox.tree_ack(call, request.tree_ack().offset()); });
    case HostRequest::kCancelTree:
      return route(call, [&](Sandbox& sandbox) { sandbox.cancel_tree(call); });
    case HostRequest::BODY_NOT_SET:
      break;
  }
}

}  // namespace sandglass::sandbox_runtime::host
