#include "replay-tools/cli/task_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/data_folder.h"
#include "engine/base/hash.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

namespace taskfile = activities::agent::taskfile;
using base::Code;

constexpr std::size_t kMaxTaskBytes = 1 << 20;

std::string beside(const std::string& file, const std::string& path) {
  if (path.starts_with('/')) return path;
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? path : file.substr(0, slash + 1) + path;
}

base::Error about_input(const std::string& file, const std::string& path, const base::Error& error) {
  return {error.code, file + ": input \"" + path + "\": " + error.message};
}

/// What can be seen of the inputs before a server is started for them.
base::Status inputs_are_there(const std::string& file, const taskfile::Task& task) {
  for (const auto& input : task.inputs) {
    const std::string path = beside(file, input.path);
    if (access(path.c_str(), R_OK) == 0) continue;
    const base::Error error{Code::file_unreadable, "cannot read " + path + ": " + std::strerror(errno)};
    return std::unexpected(about_input(file, input.path, error));
  }
  return {};
}

}  // namespace

base::Result<taskfile::TaskFile> read_task(const std::string& file,
                                           const std::map<std::string, std::string>& parameters) {
  auto text = base::read_whole_file(file, kMaxTaskBytes);
  if (!text) return std::unexpected(text.error());
  auto task = taskfile::parse_task_yaml(*text, file, parameters);
  if (!task) return task;
  if (auto there = inputs_are_there(file, task->task); !there) return std::unexpected(there.error());
  return task;
}

base::Result<std::string> make_input(Session& session, client::Client& client, const std::string& file,
                                     const taskfile::TaskFile& task,
                                     const std::map<std::string, std::string>& parameters) {
  std::vector<std::string> trees;
  for (const auto& input : task.task.inputs) {
    const std::string folder = beside(file, input.path);
    const auto uploaded = client.upload_tree(folder);
    if (!uploaded) return std::unexpected(about_input(file, input.path, uploaded.error()));
    if (!session.json()) {
      print_line("uploaded " + safe(input.path) + ": " + std::to_string(uploaded->files()) + " files, " +
                 show_bytes(uploaded->bytes()));
    }
    trees.push_back(engine::base::to_hex(uploaded->digest()));
  }
  return taskfile::make_run_input(task, trees, parameters);
}

}  // namespace sandglass::replay_tools::cli
