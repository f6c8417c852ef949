// One live coroutine of a run: events in, in history order, one at a time; commands out (J14). Replay and
// live are the same code: an event that answers a command claims it, a command that nothing claims is new
// work.
//
// Internal to engine/workflow; Context is the author's face of it. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/ports/activator.h"
#include "engine/run/commands.h"
#include "engine/run/events.h"
#include "engine/run/state.h"
#include "engine/workflow/claims.h"
#include "engine/workflow/context.h"
#include "engine/workflow/registry.h"
#include "engine/workflow/task.h"
#include "engine/workflow/wait.h"

namespace sandglass::engine::workflow {

class Instance {
 public:
  /// `registry` says which version a run that is started gets; it and `workflow` outlive this.
  Instance(const Registry& registry, const Workflow& workflow, RunInfo info, core::DigestKey digest_key);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// The first call is given every turn since the restart point, later ones those that are new.
  run::ApplyActivation activate(const core::ActivationRequest& request, const run::State& state);
  /// The code has misbehaved: this instance cannot go on.
  bool broken() const { return report_.has_value(); }
  /// The workflow's code has returned; what it said last may not have been given yet.
  bool ended() const { return ended_; }
  /// Like activate(), without anything new to do; then the request's question is put to the code.
  Result<std::string> ask(const core::ActivationRequest& request, const run::State& state);
  /// Code that was asked has done what it must not: this instance is no copy of its history any more.
  bool spoiled() const { return handlers_.spoiled(); }

  // For Context and Wait.

  ReadyQueue& queue() { return queue_; }
  const Context* root_context() const { return &root_context_; }
  CancelScope& root_scope() { return root_scope_; }
  Handlers& handlers() { return handlers_; }
  const RunInfo& info() const { return info_; }
  std::int64_t now_ms() const { return now_ms_; }
  std::uint32_t generation() const { return generation_; }
  /// History still has commands that this code must repeat.
  bool replaying() const { return outputs_left_ > 0; }

  void register_wait(const Wait::Key& key, Wait& wait);
  void unregister_wait(const Wait::Key& key, Wait& wait);
  void issue(run::WorkflowCommand command);
  std::uint64_t next_ordinal(const std::string& place);
  bool patched(const std::string& id);
  void complete_update(std::uint64_t number, Result<Json> result);
  /// While it lives, `wait` ends as soon as the condition holds.
  class Watch {
   public:
    Watch(Instance& instance, const std::function<bool()>& condition, Wait& wait);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class Instance;
    Instance& instance_;
    const std::function<bool()>& condition_;
    Wait& wait_;
  };
  /// A signal of this name that nobody has taken.
  std::optional<Delivery> take_unread(const std::string& name);
  std::optional<base::Code> lease_ended(const std::string& lease) const;
  /// Issues the start of a child, unless too many are open.
  base::Status start_child(run::StartChild command);
  /// The end of a child that came before anybody waited for it.
  std::optional<Delivery> take_ended_child(const std::string& path);
  /// `frame` as for checkpoint(). Ok: the run is at its end, and nothing of the code runs any more.
  base::Status continue_as_new(void* frame, core::Payload input);
  core::Payload payload(core::Encoding encoding, std::string bytes) const {
    return digest_key_.make(encoding, std::move(bytes));
  }
  /// `frame` is the coroutine that asks: it must be the workflow's own.
  base::Status checkpoint(void* frame, std::uint32_t schema_version, std::string bytes);

 private:
  struct Issued {
    run::WorkflowCommand command;
    Claim claim;
    std::uint64_t round = 0;  // input that it answers
  };
  struct Unread {
    std::uint64_t number = 0;
    std::string name;
    core::SlotPtr payload;
  };
  /// An event and where it stands.
  struct Position {
    std::size_t turn = 0;
    std::size_t event = 0;
  };

  template <class Visit>
  static void for_each_event(const core::ActivationRequest& request, Position from, Visit visit);
  static Position after_checkpoint(const core::ActivationRequest& request, const run::State& state);
  void restart(const core::ActivationRequest& request, Position from);
  /// The live case: what of the last output has been taken into records that are not shown again.
  void settle_taken(const core::ActivationRequest& request, const run::State& state);
  void handle(const run::Event& event, const core::TurnView& turn);
  bool deliver(const run::Event& event, const core::TurnView& turn);
  void deliver_to(WaitKind kind, const std::string& path, Delivery delivery);
  void accept_update(const run::UpdateAccepted& event, const core::TurnView& turn);
  void child_ended(const run::ChildEnded& event, core::SlotPtr result);
  void claim(const Claim& expected, std::uint64_t seq);
  void resume();
  bool wake_watches();
  void finish();
  void stick(run::StuckReport report);
  /// Unread signals as they are carried beside `bytes` of payload into a record or fit no record.
  base::Result<std::vector<run::CarriedSignal>> carried_signals(std::size_t bytes,
                                                                std::string_view into) const;
  bool awaits_child() const;

  const Registry& registry_;
  const Workflow& workflow_;
  RunInfo info_;
  core::DigestKey digest_key_;

  bool begun_ = false;
  bool ended_ = false;
  std::optional<run::StuckReport> report_;
  std::int64_t now_ms_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t outputs_left_ = 0;
  std::uint64_t known_commands_ = 0;  // of the decider, at the last activation
  std::uint32_t generation_ = 0;

  std::vector<Issued> outbox_;  // not claimed
  std::map<std::string, std::uint64_t, std::less<>> ordinals_;
  std::vector<Unread> unread_;
  std::map<std::string, base::Code, std::less<>> closed_leases_;  // of this generation
  struct OpenChild {
    run::ClosePolicy policy = run::ClosePolicy::cancel;
    std::optional<Delivery> end;  // came, and nobody has waited for it yet
  };
  std::map<std::string, OpenChild, std::less<>> children_;  // of this generation
  std::set<std::string, std::less<>> known_patches_;
  std::set<std::string, std::less<>> patches_to_claim_;
  std::map<std::string, bool, std::less<>> patch_answers_;  // the first answer holds for the generation

  ReadyQueue queue_;
  std::map<Wait::Key, std::vector<Wait*>> waits_;
  std::vector<Watch*> watches_;
  CancelScope root_scope_{nullptr};
  Context root_context_;
  Handlers handlers_{*this};
  Task<base::Result<Json>> root_;  // destroyed first: its frames use all of the above
};

}  // namespace sandglass::engine::workflow
