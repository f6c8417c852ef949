// Requests of the API as bytes, decoded and given to the methods of an engine on memory parts: JSON, ids,
// page tokens, filters, uploads, tokens. Input: calls, each a method, a caller and the request's bytes with
// their length before them. Oracle: every call is answered exactly once, and the engine stays in ownership.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/engine_methods.h"
#include "engine/base/check.h"
#include "engine/blob/memory/store.h"
#include "engine/identity/identity.h"
#include "engine/journal/memory/journal.h"
#include "engine/journal/rows/rows.h"
#include "engine/server/compose/kinds.h"
#include "engine/shard/shard_set.h"
#include "engine/view/memory/view.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/seeded_random.h"

namespace {

using namespace sandglass;
using namespace sandglass::engine;
namespace v1 = ::sandglass::v1;

struct NoActivator final : core::Activator {
  bool is_live_at(const core::StreamId&, std::uint64_t) const override { return true; }
  std::uint64_t restart_point(const core::StreamState&) const override { return 1; }
  void submit(core::ActivationRequest request) override {
    core::ActivationAnswer answer{request.stream, request.head, {}};
    if (request.question) answer.said = "null";
    waiting.push_back(std::move(answer));
  }
  void poll(std::vector<core::ActivationAnswer>& answers) override {
    for (auto& answer : std::exchange(waiting, {})) answers.push_back(std::move(answer));
  }
  void evict(const core::StreamId&) override {}
  void evict_all() override { waiting.clear(); }
  std::vector<core::ActivationAnswer> waiting;
};

struct NoDispatcher final : core::Dispatcher {
  void submit(const core::StreamId&, core::Action) override {}
  void poll(std::vector<core::FinishedAction>&) override {}
  void abandon_all() override {}
};

struct Inline final : base::TaskRunner {
  void run(std::move_only_function<void()> closure) override { closure(); }
};

fold::Registry& kinds() {
  static fold::Registry all = [] {
    fold::Registry made;
    for (auto& kind : server::compose::all_kinds()) made.add(std::move(kind));
    return made;
  }();
  return all;
}

/// Engine and methods, made anew for each input.
class Engine final : private api::EnginePort {
 public:
  Engine() {
    auto opened =
        shard::ShardSet::open({.partitions = 2}, {kinds(), view_, reads_, journal_, activator_, dispatcher_});
    SG_CHECK(opened.has_value(), opened.error().message);
    set_ = std::move(*opened);
  }
  ~Engine() {
    settle();
    SG_CHECK(!set_->lost(), "the ownership is lost");
    SG_CHECK(asked_ == answered_, "a call has no answer");
  }

  api::Methods& methods() { return *methods_; }
  template <class Reply>
  api::Answer<Reply> answer() {
    ++asked_;
    return [this](base::Result<Reply> reply) {
      ++answered_;
      if (!reply) SG_CHECK(!reply.error().message.empty(), "refused without a word");
    };
  }
  /// Pulls a stream to its end, or some way.
  template <class Message>
  void pull(api::StreamPtr<Message> stream) {
    if (!stream) return;
    bool more = true;
    for (int i = 0; more && i < 20; ++i) {
      more = false;
      ++asked_;
      (*stream)->next([&](base::Result<std::optional<Message>> got) {
        ++answered_;
        more = got && *got;
      });
      settle();
    }
    (*stream)->stop();
    settle();
  }
  void settle() {
    for (int i = 0; i < 40; ++i) {
      now_.monotonic_ns += 200'000;
      set_->poll(now_);
    }
  }

 private:
  void submit(shard::CommandEnvelope envelope) override { set_->submit(std::move(envelope)); }
  void read(const core::StreamId& stream, shard::ReadFn on_read) override {
    set_->read(stream, std::move(on_read));
  }
  void ask(const core::StreamId& stream, core::Question question, shard::SaidFn on_said) override {
    set_->ask(stream, std::move(question), std::move(on_said));
  }
  std::uint64_t follow(const core::StreamId& stream, std::uint64_t from_seq, std::size_t limit,
                       shard::RecordsFn on_records) override {
    follows_.emplace_back(stream, set_->follow(stream, from_seq, limit, std::move(on_records)));
    return follows_.size();
  }
  void cancel_follow(std::uint64_t number) override {
    if (number == 0 || number > follows_.size()) return;
    set_->cancel_follow(follows_[number - 1].first, follows_[number - 1].second);
  }

  tests::support::SeededRandom random_{1};
  view::MemoryDisk disk_{random_};
  journal::MemoryJournal journal_{
      disk_,
      random_,
      {.meta = {.journal_id = "fuzz", .partitions = 2}, .sync_per_mille = 1000, .report_per_mille = 1000}};
  view::MemoryView view_{disk_, random_, 0};
  shard::ViewReads reads_{view_};
  NoActivator activator_;
  NoDispatcher dispatcher_;
  std::unique_ptr<shard::ShardSet> set_;
  shard::Now now_{.wall_ms = 1'000'000, .monotonic_ns = 1};
  std::vector<std::pair<core::StreamId, shard::FollowId>> follows_;
  journal::RowReader reader_{view_};
  blob::MemoryBlobStore blobs_;
  Inline pool_;
  const api::Backend backend_{.engine = *this,
                              .pool = pool_,
                              .view = view_,
                              .reader = reader_,
                              .kinds = kinds(),
                              .blobs = blobs_,
                              .tenant_key = "key",
                              .partitions = 2,
                              .workflows = {{"agent", "1"}, {"w", "1"}},
                              .upload = {.bytes = 1000, .files = 10},
                              .fill_status = {},
                              .identities_changed = {}};
  std::unique_ptr<api::Methods> methods_ = api::engine_methods(backend_);
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
};

identity::Caller caller_of(std::uint8_t number) {
  const auto roles = number % 4 == 3 ? identity::kAllRoles : static_cast<identity::Roles>(1u << (number % 6));
  return {.token_name = "t", .tenant = number % 5 == 4 ? "other" : "default", .user = "ann", .roles = roles};
}

template <class Request>
bool read_request(std::string_view bytes, Request& request) {
  return request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

template <class Request, class Reply>
void unary(Engine& engine, const identity::Caller& caller, std::string_view bytes,
           void (api::Methods::*method)(const identity::Caller&, const Request&, api::Answer<Reply>)) {
  Request request;
  if (read_request(bytes, request)) (engine.methods().*method)(caller, request, engine.answer<Reply>());
  engine.settle();
}

template <class Request, class Message>
void stream(Engine& engine, const identity::Caller& caller, std::string_view bytes,
            api::StreamPtr<Message> (api::Methods::*method)(const identity::Caller&, const Request&)) {
  Request request;
  if (read_request(bytes, request)) engine.pull((engine.methods().*method)(caller, request));
}

void upload(Engine& engine, const identity::Caller& caller, std::string_view bytes) {
  auto sink = engine.methods().upload_tree(caller);
  if (!sink) return;
  tests::fuzz::Input parts(bytes);
  bool more = true;
  while (more && !parts.empty()) {
    v1::TreePart part;
    if (!read_request(parts.take(parts.byte()), part)) continue;
    (*sink)->take(std::move(part), [&](base::Result<bool> taken) { more = taken.has_value(); });
  }
  if (more) (*sink)->finish(engine.answer<v1::UploadTreeReply>());
}

void call(Engine& engine, std::uint8_t method, const identity::Caller& caller, std::string_view bytes) {
  using M = api::Methods;
  switch (method % 23) {
    case 0:
      return unary(engine, caller, bytes, &M::start_run);
    case 1:
      return unary(engine, caller, bytes, &M::list_runs);
    case 2:
      return unary(engine, caller, bytes, &M::get_run);
    case 3:
      return stream(engine, caller, bytes, &M::follow_run);
    case 4:
      return unary(engine, caller, bytes, &M::signal_run);
    case 5:
      return unary(engine, caller, bytes, &M::cancel_run);
    case 6:
      return unary(engine, caller, bytes, &M::terminate_run);
    case 7:
      return unary(engine, caller, bytes, &M::resume_run);
    case 8:
      return unary(engine, caller, bytes, &M::status);
    case 9:
      return unary(engine, caller, bytes, &M::list_approvals);
    case 10:
      return unary(engine, caller, bytes, &M::decide);
    case 11:
      return unary(engine, caller, bytes, &M::describe_journal);
    case 12:
      return stream(engine, caller, bytes, &M::read_history);
    case 13:
      return stream(engine, caller, bytes, &M::read_order);
    case 14:
      return upload(engine, caller, bytes);
    case 15:
      return unary(engine, caller, bytes, &M::list_artifacts);
    case 16:
      return stream(engine, caller, bytes, &M::get_artifact);
    case 17:
      return unary(engine, caller, bytes, &M::create_token);
    case 18:
      return unary(engine, caller, bytes, &M::revoke_token);
    case 19:
      return unary(engine, caller, bytes, &M::list_tokens);
    case 20:
      return unary(engine, caller, bytes, &M::query_run);
    case 21:
      return stream(engine, caller, bytes, &M::update_run);
    default:
      return unary(engine, caller, bytes, &M::count_runs);
  }
}

}  // namespace

FUZZ_TARGET(api_calls) {
  tests::fuzz::Input in(input);
  Engine engine;
  for (int calls = 0; !in.empty() && calls < 12; ++calls) {
    const std::uint8_t method = in.byte();
    const auto caller = caller_of(in.byte());
    call(engine, method, caller, in.piece());
  }
}
