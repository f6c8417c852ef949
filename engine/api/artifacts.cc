#include "engine/api/artifacts.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "engine/fold/stream_fold.h"
#include "engine/run/events.h"

namespace sandglass::engine::api {

namespace {

using base::Code;
using nlohmann::json;

constexpr const char* kActivity = "artifact.store";
constexpr std::size_t kPage = 256;
constexpr std::size_t kPartBytes = 256 * 1024;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<v1::ArtifactView> view_of(const core::StreamId& stream, const run::StepCompleted& event,
                                        const fold::ReadTurn& turn) {
  if (event.result.seq != turn.header.seq || event.result.slot >= turn.slots.size()) return std::nullopt;
  const json result = json::parse(turn.slots[event.result.slot]->bytes, nullptr, false);
  if (!result.is_object()) return std::nullopt;
  const auto digest = base::from_hex(text_of(result, "public_digest"));
  if (!digest || !base::Hash256::from_bytes(*digest)) return std::nullopt;
  v1::ArtifactView view;
  view.set_artifact_id(text_of(result, "id"));
  view.set_run_id(stream.text());
  view.set_name(text_of(result, "name"));
  view.set_mime(text_of(result, "mime"));
  const auto size = result.find("size");
  if (size != result.end() && size->is_number_unsigned()) view.set_size(size->get<std::uint64_t>());
  view.set_public_digest(*digest);
  view.set_creator(event.path);
  view.set_created_ms(turn.header.time_ms);
  return view;
}

/// Finds the artifact on the first pull, then reads its blob.
class ArtifactStream final : public Stream<v1::ContentPart>,
                             public std::enable_shared_from_this<ArtifactStream> {
 public:
  ArtifactStream(const Backend& backend, Caller caller, const v1::GetArtifactRequest& request)
      : backend_(backend), caller_(std::move(caller)), request_(request) {}

  void next(Answer<std::optional<v1::ContentPart>> answer) override {
    if (reader_) return read_on(std::move(answer));
    with_run(backend_.engine, caller_, request_.run_id(),
             [self = shared_from_this(), answer = std::move(answer)](base::Result<RunFacts> facts) mutable {
               if (!facts) return answer(std::unexpected(facts.error()));
               self->backend_.pool.run([self, facts = std::move(*facts),
                                        answer = std::move(answer)]() mutable { answer(self->open(facts)); });
             });
  }
  void stop() override {}  // every answer comes soon by itself

 private:
  base::Result<std::optional<v1::ContentPart>> open(const RunFacts& facts) {
    const fold::AnyKind& kind = *backend_.kinds.find(core::StreamKind::run);
    auto artifacts = read_artifacts(backend_.reader, kind, facts.stream, facts.head);
    if (!artifacts) return std::unexpected(artifacts.error());
    for (auto artifact = artifacts->rbegin(); artifact != artifacts->rend(); ++artifact) {
      if (artifact->name() != request_.name() && artifact->artifact_id() != request_.name()) continue;
      const auto digest = base::Hash256::from_bytes(artifact->public_digest());
      auto reader = backend_.blobs.open(facts.state().tenant, {*digest});
      if (!reader) return std::unexpected(reader.error());
      reader_ = std::move(*reader);
      v1::ContentPart part;
      *part.mutable_artifact() = std::move(*artifact);
      return part;
    }
    return base::fail(Code::artifact_missing, "the run has no artifact " + request_.name() +
                                                  "; `sandglass artifact list` has the names");
  }

  void read_on(Answer<std::optional<v1::ContentPart>> answer) {
    backend_.pool.run([self = shared_from_this(), answer = std::move(answer)]() mutable {
      auto bytes = self->reader_->read(kPartBytes);
      if (!bytes) return answer(std::unexpected(bytes.error()));
      if (bytes->empty()) return answer(std::optional<v1::ContentPart>());
      v1::ContentPart part;
      part.set_data(std::move(*bytes));
      answer(std::optional(std::move(part)));
    });
  }

  const Backend& backend_;
  const Caller caller_;
  const v1::GetArtifactRequest request_;
  std::unique_ptr<blob::BlobReader> reader_;
};

}  // namespace

base::Result<std::vector<v1::ArtifactView>> read_artifacts(const journal::Reader& reader,
                                                           const fold::AnyKind& kind,
                                                           const core::StreamId& stream, std::uint64_t head) {
  std::vector<v1::ArtifactView> artifacts;
  std::set<std::string> paths;  // of steps that store an artifact and are open
  for (std::uint64_t next = 1; next <= head;) {
    auto records = reader.read_stream(stream, next, kPage);
    if (!records) return std::unexpected(records.error());
    if (records->empty()) break;
    next = records->back().seq + 1;
    for (const auto& record : *records) {
      auto turn = fold::read_turn(kind, record);
      if (!turn) return std::unexpected(turn.error());
      for (const run::Event& event : static_cast<const core::Events<run::Event>&>(*turn->events).items) {
        if (const auto* scheduled = std::get_if<run::StepScheduled>(&event)) {
          if (scheduled->activity == kActivity) paths.insert(scheduled->path);
        } else if (const auto* completed = std::get_if<run::StepCompleted>(&event)) {
          if (paths.erase(completed->path) == 0) continue;
          if (auto view = view_of(stream, *completed, *turn)) artifacts.push_back(std::move(*view));
        }
      }
    }
  }
  return artifacts;
}

std::shared_ptr<Stream<v1::ContentPart>> artifact_stream(const Backend& backend, const Caller& caller,
                                                         const v1::GetArtifactRequest& request) {
  return std::make_shared<ArtifactStream>(backend, caller, request);
}

}  // namespace sandglass::engine::api
