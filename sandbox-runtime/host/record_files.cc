#include "sandbox-runtime/host/record_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/base/log.h"
#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::host {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::Status;

namespace {
constexpr const char* kSuffix = ".lease";

std::unexpected<engine::base::Error> file_failed(const std::string& path) {
  return fail(errno == ENOSPC ? Code::disk_full : Code::io_error,
              "writing " + path + ": " + std::strerror(errno));
}
}  // namespace

Result<RecordFiles> RecordFiles::open(std::string folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return file_failed(folder);
  return RecordFiles(std::move(folder));
}

/// Not synced: what a machine's crash takes away it takes with the sandbox.
Status RecordFiles::keep(const frame::v1::HostSandboxRecord& record) const {
  const std::string path = folder_ + "/" + record.create().id() + kSuffix;
  const std::string beside = path + ".new";
  const std::string bytes = record.SerializeAsString();
  engine::base::UniqueFd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::rename(beside.c_str(), path.c_str()) != 0) {
    return file_failed(path);
  }
  return {};
}

void RecordFiles::forget(const std::string& id) const {
  ::unlink((folder_ + "/" + id + kSuffix).c_str());
}

std::vector<frame::v1::HostSandboxRecord> RecordFiles::all() const {
  std::vector<frame::v1::HostSandboxRecord> records;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(folder_, error)) {
    if (item.path().extension() != kSuffix) continue;
    std::ifstream in(item.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    frame::v1::HostSandboxRecord record;
    if (record.ParseFromString(bytes) && record.create().id() == item.path().stem().string()) {
      records.push_back(std::move(record));
      continue;
    }
    engine::base::log(engine::base::LogLevel::warning, "sandbox_record_damaged",
                      {{"path", item.path().string()}});
    std::filesystem::remove(item.path(), error);
  }
  return records;
}

}  // namespace sandglass::sandbox_runtime::host
