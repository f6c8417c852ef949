// sandbox.put, sandbox.put_file, sandbox.get_file, sandbox.list: files in and out of a leased sandbox.
#include "engine/base/text.h"
#include "sandbox-runtime/manager/answers.h"
#include "sandbox-runtime/manager/blob_tree.h"
#include "sandbox-runtime/manager/parts.h"

namespace sandglass::sandbox_runtime::manager {

namespace {

constexpr std::size_t kMaxFile = 64 << 20;
constexpr std::size_t kInline = 64 * 1024;
constexpr std::size_t kMaxListed = 5'000;

void put(const Parts& parts, const Json& input, core::ActivityDone answer) {
  auto work = [parts, input, answer = std::move(answer)]() mutable {
    const std::string tenant = input.value("tenant", "");
    auto tree = load_tree(parts->blobs, tenant, input.value("tree", ""));
    if (!tree) return answer(failed(tree.error()));
    auto source = std::make_shared<BlobTreeSource>(parts->blobs, tenant, *std::move(tree));
    parts->provider.put_tree(ref_of(input), input.value("to", ""), std::move(source),
                             [answer = std::move(answer)](base::Result<provider::TreeResult> put) mutable {
                               if (!put) return answer(failed(put.error()));
                               answer(done({{"files", put->manifest.entries.size()}, {"bytes", put->bytes}}));
                             });
  };
  parts->runner.run(std::move(work));
}

void put_file(const Parts& parts, const Json& input, core::ActivityDone answer) {
  const std::string path = input.value("path", "");
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.empty()) return answer(invalid("\"path\" must name a file"));
  std::string content = input.value("content", "");
  const std::size_t size = content.size();
  auto source = std::make_shared<TextTreeSource>(name, std::move(content), input.value("executable", false));
  parts->provider.put_tree(
      ref_of(input), folder, std::move(source),
      [path, size, answer = std::move(answer)](base::Result<provider::TreeResult> put) mutable {
        if (!put) return answer(failed(put.error()));
        answer(done({{"path", path}, {"size", size}}));
      });
}

void get_file(const Parts& parts, const Json& input, core::ActivityDone answer) {
  auto sink = std::make_shared<OneFileSink>(kMaxFile);
  const std::string path = input.value("path", "");
  const std::string tenant = input.value("tenant", "");
  auto keep = [parts, sink, path, tenant,
               answer = std::move(answer)](base::Result<provider::TreeResult> got) mutable {
    if (!got) return answer(failed(got.error()));
    if (!sink->has_file()) return answer(failed({base::Code::not_found, "the sandbox has no such file"}));
    auto store = [parts, sink, path, tenant, answer = std::move(answer)]() mutable {
      auto digest = parts->blobs.put(tenant, sink->content());
      if (!digest) return answer(failed(digest.error()));
      Json out{{"path", path},
               {"size", sink->content().size()},
               {"blob", digest->hash.hex()},
               {"executable", sink->executable()}};
      if (sink->content().size() <= kInline && base::is_utf8(sink->content()) &&
          json_size(sink->content()) <= 2 * kShownJson)
        out["content"] = sink->content();
      answer(done(out));
    };
    parts->runner.run(std::move(store));
  };
  parts->provider.get_tree(ref_of(input), path, sink, std::move(keep));
}

void list(const Parts& parts, const Json& input, core::ActivityDone answer) {
  parts->provider.list_tree(ref_of(input), input.value("path", ""),
                            [answer = std::move(answer)](base::Result<provider::Manifest> manifest) mutable {
                              if (!manifest) return answer(failed(manifest.error()));
                              std::vector<std::string> files;
                              std::size_t count = 0;
                              for (const provider::ManifestEntry& entry : manifest->entries) {
                                if (entry.entry.type == provider::EntryType::folder) continue;
                                if (++count <= kMaxListed) files.push_back(entry.entry.path);
                              }
                              answer(done({{"files", first_names(files, 2 * kShownJson)},
                                           {"count", count},
                                           {"refused", first_names(manifest->refused, kShownJson)}}));
                            });
}

}  // namespace

void register_tree_activities(core::ActivityRegistry& registry, const Parts& parts) {
  const auto add = [&](const char* name, auto function) {
    registry.add(name, make_activity([parts, function](const core::ActivityCall&, Json input,
                                                       core::ActivityDone answer) {
                   function(parts, input, std::move(answer));
                 }));
  };
  add("sandbox.put", put);
  add("sandbox.put_file", put_file);
  add("sandbox.get_file", get_file);
  add("sandbox.list", list);
}

}  // namespace sandglass::sandbox_runtime::manager
