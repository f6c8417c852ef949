// artifact list, artifact get.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/data_folder.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/base/unique_fd.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/one_run.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

base::Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const auto wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return std::unexpected(base::system_error("cannot write", path, errno));
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

/// A terminal gets what is safe to show; a character that is cut waits for its rest.
class Shown {
 public:
  std::string take(std::string_view bytes) {
    held_ += bytes;
    std::size_t end = held_.size();
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(held_[at]); };
    while (end > 0 && held_.size() - end < 3 && (byte(end - 1) & 0xC0) == 0x80) --end;
    end = end > 0 && byte(end - 1) >= 0xC0 ? end - 1 : held_.size();
    if (end < held_.size() && engine::base::is_utf8(std::string_view(held_).substr(end))) end = held_.size();
    std::string shown = engine::base::escape_for_terminal(std::string_view(held_).substr(0, end), true);
    held_.erase(0, end);
    return shown;
  }
  std::string rest() const { return engine::base::escape_for_terminal(held_); }

 private:
  std::string held_;
};

/// What is damaged or cut short must not lie there under the name that was asked for.
void remove_part(int fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) unlink(path.c_str());
}

}  // namespace

Outcome artifact_list(Session& session, const ArtifactArgs& args) {
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  api::ListArtifactsRequest request;
  request.set_run_id(run->id);
  const auto artifacts = run->client->list_artifacts(request);
  if (!artifacts) return std::unexpected(artifacts.error());
  if (session.json()) {
    print_line(to_json(*artifacts));
    return base::Exit::ok;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "TYPE", "SIZE", "CREATED", "SHA-256"}};
  for (const auto& artifact : artifacts->artifacts()) {
    rows.push_back({artifact.name(), artifact.mime(), show_bytes(artifact.size()),
                    show_time(artifact.created_ms()), engine::base::to_hex(artifact.public_digest())});
  }
  print_table(rows);
  return base::Exit::ok;
}

Outcome artifact_get(Session& session, const ArtifactArgs& args) {
  const bool to_stdout = args.output.empty() || args.output == "-";
  if (to_stdout && session.json()) {
    return base::fail(base::Code::usage,
                      "with --json, give -o FILE: on standard output the artifact's bytes would stand where "
                      "JSON is expected");
  }
  const auto run = open_run(session, args.run_id);
  if (!run) return std::unexpected(run.error());
  engine::base::UniqueFd file;
  if (!to_stdout) {
    file.reset(open(args.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file) return std::unexpected(base::system_error("cannot write", args.output, errno));
  }
  api::GetArtifactRequest request;
  request.set_run_id(run->id);
  request.set_name(args.name);
  engine::base::Sha256 hash;
  std::string expected;
  base::Status wrote;
  const bool terminal = to_stdout && isatty(STDOUT_FILENO) == 1;
  Shown shown;
  const auto status = run->client->get_artifact(request, [&](const api::ContentPart& part) {
    if (part.has_artifact()) expected = part.artifact().public_digest();
    hash.update(part.data());
    wrote = write_all(to_stdout ? STDOUT_FILENO : file.get(),
                      terminal ? shown.take(part.data()) : part.data(), args.output);
    return wrote.has_value();
  });
  if (terminal && wrote) wrote = write_all(STDOUT_FILENO, shown.rest(), args.output);
  const auto digest = hash.finish();
  const bool whole = wrote && status && digest.view() == expected;
  if (!whole && !to_stdout) remove_part(file.get(), args.output);
  if (!wrote) return std::unexpected(wrote.error());
  if (!status) return std::unexpected(status.error());
  if (!whole) {
    return base::fail(base::Code::blob_missing,
                      "the artifact's bytes do not match their digest; get it again");
  }
  if (!to_stdout) {
    print_line(session.json() ? to_json({{"file", args.output}, {"sha256", digest.hex()}})
                              : "wrote " + safe(args.output) + ", SHA-256 " + digest.hex());
  }
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
