#include "activities/artifacts/artifacts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/crash_point.h"
#include "engine/base/text.h"

namespace sandglass::activities::artifacts {

namespace {

using Json = nlohmann::json;

core::ActivityResult failure(const base::Error& error, bool platform) {
  return {.outcome = core::Outcome::not_done,
          .code = error.code,
          .side = platform ? core::FailureSide::platform : core::FailureSide::user,
          .retryable = error.code == base::Code::io_error,
          .message = error.message};
}

core::ActivityResult invalid(std::string what) {
  return failure({base::Code::arguments_invalid, std::move(what)}, false);
}

/// What is stored: bytes that came along, or a blob that is there already.
struct Content {
  base::Hash256 digest;
  std::uint64_t size = 0;
  std::string head;
};

base::Result<Content> content_of(engine::blob::BlobStore& blobs, const std::string& tenant,
                                 const Json& input) {
  if (input.contains("text")) {
    const auto& text = input["text"].get_ref<const std::string&>();
    const auto digest = blobs.put(tenant, text);
    if (!digest) return std::unexpected(digest.error());
    return Content{digest->hash, text.size(), text.substr(0, 512)};
  }
  const auto hash = base::Hash256::from_hex(input["blob"].get<std::string>());
  if (!hash) return base::fail(base::Code::arguments_invalid, "\"blob\" must be 64 hex digits");
  const auto reader = blobs.open(tenant, {*hash});
  if (!reader) return std::unexpected(reader.error());
  const auto head = (*reader)->read(512);
  if (!head) return std::unexpected(head.error());
  return Content{*hash, (*reader)->size(), *head};
}

core::ActivityResult store(engine::blob::BlobStore& blobs, const Json& input, const std::string& key) {
  const std::string name = input["name"].get<std::string>();
  if (!is_artifact_name(name)) {
    return invalid("\"" + base::escape_for_terminal(name) +
                   "\" is no name for an artifact; use a plain file name");
  }
  SG_CRASH_POINT("artifact.before_store");
  const auto content = content_of(blobs, input["tenant"].get<std::string>(), input);
  if (!content) return failure(content.error(), content.error().code != base::Code::arguments_invalid);
  const std::string id = "art-" + base::sha256(key).hex().substr(0, 16);
  const Json result{{"id", id},
                    {"name", name},
                    {"stored_name", id + ".bin"},
                    {"mime", guess_mime(name, content->head)},
                    {"size", content->size},
                    {"public_digest", content->digest.hex()}};
  SG_CRASH_POINT("artifact.stored");
  return {.bytes = result.dump()};
}

class StoreActivity final : public core::Activity {
 public:
  StoreActivity(engine::blob::BlobStore& blobs, base::TaskRunner& runner) : blobs_(blobs), runner_(runner) {}

  void start(core::ActivityCall call, core::ActivityDone done) override {
    Json input =
        Json::parse(call.input == nullptr ? "" : call.input->bytes, nullptr, /*allow_exceptions=*/false);
    const auto is_text = [&](const char* field) { return input.contains(field) && input[field].is_string(); };
    if (!input.is_object() || !is_text("name") || !is_text("tenant") || is_text("text") == is_text("blob")) {
      return done(invalid("an artifact needs \"name\" and one of \"text\" and \"blob\""));
    }
    auto work = [this, input = std::move(input), key = call.key, done = std::move(done)]() mutable {
      done(store(blobs_, input, key));
    };
    runner_.run(std::move(work));
  }
  void cancel(const core::StreamId&, const std::string&, const core::Token&) override {}  // short; let it end

 private:
  engine::blob::BlobStore& blobs_;
  base::TaskRunner& runner_;
};

bool has_ending(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

bool is_artifact_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '.' || name.front() == '-') return false;
  if (name.find_first_of("/\\") != std::string_view::npos) return false;
  return base::escape_for_terminal(name) == name;
}

std::string guess_mime(std::string_view name, std::string_view head) {
  const std::pair<std::string_view, const char*> magic[] = {{"\x89PNG\r\n", "image/png"},
                                                            {"\xff\xd8\xff", "image/jpeg"},
                                                            {"GIF8", "image/gif"},
                                                            {"%PDF-", "application/pdf"},
                                                            {"PK\x03\x04", "application/zip"},
                                                            {"\x1f\x8b", "application/gzip"},
                                                            {"\x7f"
                                                             "ELF",
                                                             "application/x-elf"}};
  for (const auto& [bytes, mime] : magic) {
    if (head.starts_with(bytes)) return mime;
  }
  // A head may end inside a character: then it is text without its last one to three bytes.
  bool text = base::is_utf8(head);
  for (std::size_t cut = 1; !text && cut <= 3 && cut < head.size(); ++cut) {
    text = base::is_utf8(head.substr(0, head.size() - cut));
  }
  if (!text || head.find('\0') != std::string_view::npos) return "application/octet-stream";
  if (has_ending(name, {".diff", ".patch"})) return "text/x-diff";
  if (has_ending(name, {".json"})) return "application/json";
  if (has_ending(name, {".md"})) return "text/markdown";
  return "text/plain";  // HTML and SVG too: never served as something that runs
}

void register_artifact_activity(core::ActivityRegistry& registry, engine::blob::BlobStore& blobs,
                                base::TaskRunner& runner) {
  registry.add(kStoreActivity, std::make_shared<StoreActivity>(blobs, runner));
}

}  // namespace sandglass::activities::artifacts
