#include "replay-tools/backup/backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace sandglass::replay_tools::backup {

namespace {

using base::Code;
using base::system_error;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr std::size_t kLongestList = std::size_t{1} << 30;
constexpr std::size_t kLongestFacts = 1U << 20;
constexpr const char* kUnfinished = "unfinished";

/// What a server cannot make anew, beside the journal. Logs, leases, sockets and slots belong to a machine.
constexpr std::array<std::string_view, 8> kKept = {"blobs",         "id",        "keys",           "run",
                                                   "run/published", "run/topic", "sandglass.yaml", "tokens"};

bool is_kept(std::string_view below, std::string_view name) {
  if (below.empty() || below == "run") {
    const std::string path = below.empty() ? std::string(name) : std::string(below) + "/" + std::string(name);
    return std::ranges::find(kKept, path) != kKept.end();
  }
  return below != "blobs" || name != "new";  // what is being uploaded
}

bool exists(const std::string& path) {
  struct stat about{};
  return lstat(path.c_str(), &about) == 0;
}

bool is_empty_folder(const std::string& path) {
  std::error_code failed;
  return fs::is_directory(fs::symlink_status(path, failed)) && fs::is_empty(path, failed) && !failed;
}

base::Status make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return {};
  return std::unexpected(system_error("cannot make the folder", path, errno));
}

/// A new folder that says that it is not whole yet, in place of such a one.
base::Status begin(const std::string& folder, const std::string& what) {
  if (exists(folder) && !is_empty_folder(folder)) {
    if (!exists(folder + "/" + kUnfinished) || exists(folder + "/format")) {
      return base::fail(Code::already_exists, folder + " exists; name a new or empty folder for the " + what);
    }
    std::error_code failed;
    fs::remove_all(folder, failed);
    if (failed) return std::unexpected(system_error("cannot remove the unfinished", folder, failed.value()));
  }
  if (!exists(folder)) {
    if (auto made = make_folder(folder); !made) return made;
  }
  return base::write_whole_file(folder + "/" + kUnfinished, "");
}

base::Status end(const std::string& folder) {
  if (auto synced = sync_disk(folder); !synced) return synced;
  if (unlink((folder + "/" + kUnfinished).c_str()) != 0)
    return std::unexpected(system_error("cannot remove", folder + "/" + kUnfinished, errno));
  return sync_disk(folder);
}

/// Of all fields but the hash itself, in their order.
std::string hash_of(const ordered_json& facts) {
  return base::sha256(facts.dump(-1, ' ', true, ordered_json::error_handler_t::replace)).hex();
}

ordered_json to_json(const Facts& facts, const std::string& list) {
  ordered_json out = {{"sandglass_backup", kFormat},  {"data_folder", facts.data_folder},
                      {"folder_id", facts.folder_id}, {"journal", facts.journal},
                      {"made_ms", facts.made_ms},     {"records", facts.records},
                      {"streams", facts.streams},     {"files", facts.files},
                      {"bytes", facts.bytes},         {"files_sha256", base::sha256(list).hex()}};
  out["heads"] = ordered_json::array();
  for (const audit::Head& head : facts.heads) {
    out["heads"].push_back(
        {{"partition", head.partition}, {"sequence", head.sequence}, {"chain", head.chain.hex()}});
  }
  out["sha256"] = hash_of(out);
  return out;
}

struct Described {
  Facts facts;
  std::string files_sha256;
};

base::Result<Described> read_facts(const std::string& backup) {
  const std::string path = backup + "/backup";
  if (exists(backup + "/" + kUnfinished)) {
    return base::fail(Code::not_found,
                      "the backup in " + backup +
                          " is not finished: it was interrupted. Make it again, into the same "
                          "folder if you like");
  }
  const auto text = base::read_whole_file(path, kLongestFacts);
  if (!text)
    return base::fail(Code::not_found, "there is no backup in " + backup + ": " + text.error().message);
  try {
    auto json = ordered_json::parse(*text);
    if (const int format = json.at("sandglass_backup").get<int>(); format != kFormat) {
      return base::fail(Code::format_unknown, "the backup in " + backup + " has format " +
                                                  std::to_string(format) + ", this program reads " +
                                                  std::to_string(kFormat));
    }
    const std::string hash = json.at("sha256");
    json.erase("sha256");
    if (hash != hash_of(json)) return base::fail(Code::record_damaged, path + " is damaged: it was changed");
    Described read{.facts = {.data_folder = json.at("data_folder"),
                             .folder_id = json.at("folder_id"),
                             .journal = json.at("journal"),
                             .made_ms = json.at("made_ms"),
                             .records = json.at("records"),
                             .streams = json.at("streams"),
                             .files = json.at("files"),
                             .bytes = json.at("bytes"),
                             .heads = {}},
                   .files_sha256 = json.at("files_sha256")};
    for (const auto& head : json.at("heads")) {
      const auto chain = base::Hash256::from_hex(head.at("chain").get<std::string>());
      if (!chain) return base::fail(Code::record_damaged, path + " has a head that is no hash");
      read.facts.heads.push_back(
          {.partition = head.at("partition"), .sequence = head.at("sequence"), .chain = *chain});
    }
    return read;
  } catch (const nlohmann::json::exception&) {
    return base::fail(Code::record_damaged, path + " is damaged: it lacks what a backup says of itself");
  }
}

/// The facts, and the list of files that they vouch for.
base::Result<std::pair<Facts, Hashes>> read_backup(const std::string& backup) {
  auto read = read_facts(backup);
  if (!read) return std::unexpected(read.error());
  const std::string path = backup + "/files";
  const auto text = base::read_whole_file(path, kLongestList);
  if (!text) return base::fail(Code::record_damaged, "the backup is damaged: " + text.error().message);
  if (base::sha256(*text).hex() != read->files_sha256)
    return base::fail(Code::record_damaged, "the backup is damaged: " + path + " is changed");
  auto files = parse_hashes(*text);
  if (!files) return base::fail(Code::record_damaged, path + ": " + files.error().message);
  return std::pair(std::move(read->facts), std::move(*files));
}

base::Status same_files(const std::string& backup, const Hashes& wanted, const Hashes& found) {
  const std::string different = difference(wanted, found);
  if (different.empty()) return {};
  return base::fail(Code::record_damaged,
                    "the backup in " + backup + " is damaged: data/" + different + "; take another one");
}

/// Two servers with one history would both carry out what is open in it.
base::Status check_original(const Facts& facts, const std::string& to) {
  const auto original = base::DataFolder::open_read_only(facts.data_folder);
  if (!original || original->id() != facts.folder_id || facts.data_folder == to) return {};
  return base::fail(Code::already_exists,
                    "the data folder that this is a backup of is still there: " + facts.data_folder +
                        ". Two servers with one history both carry out what is open in it. Stop that server "
                        "and move its folder away, or say --beside-original if it will never serve again");
}

}  // namespace

std::string data_of(const std::string& backup) {
  return backup + "/data";
}

base::Result<Draft> copy_data(const base::DataFolder& folder, const std::string& journal,
                              const std::string& to) {
  if (auto begun = begin(to, "backup"); !begun) return std::unexpected(begun.error());
  const std::string data = data_of(to);
  // What the journal's files name is in the blobs by now.
  auto others = copy_tree(folder.path(), data, [](std::string_view below, std::string_view name) {
    return !is_kept(below, name);
  });
  if (!others) return std::unexpected(others.error());
  const auto rows = copy_tree(journal, data + "/journal", [](std::string_view below, std::string_view name) {
    return below.empty() &&
           (name == "LOCK" || name.starts_with("set-aside-") || name.starts_with("checkpoint-"));
  });
  if (!rows) return std::unexpected(rows.error());
  for (const auto& [path, hash] : rows->files) others->files.emplace("journal/" + path, hash);
  others->bytes += rows->bytes;
  return Draft{.folder = to, .tree = std::move(*others)};
}

base::Result<Facts> finish(const Draft& draft, Facts facts) {
  facts.files = draft.tree.files.size();
  facts.bytes = draft.tree.bytes;
  const std::string list = to_text(draft.tree.files);
  if (auto written = base::write_whole_file(draft.folder + "/files", list); !written)
    return std::unexpected(written.error());
  const std::string text =
      to_json(facts, list).dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
  if (auto written = base::write_whole_file(draft.folder + "/backup", text); !written)
    return std::unexpected(written.error());
  if (auto ended = end(draft.folder); !ended) return std::unexpected(ended.error());
  return facts;
}

base::Result<Facts> check_files(const std::string& backup) {
  auto read = read_backup(backup);
  if (!read) return std::unexpected(read.error());
  const auto found = hash_tree(data_of(backup));
  if (!found) return std::unexpected(found.error());
  if (auto same = same_files(backup, read->second, found->files); !same) return std::unexpected(same.error());
  return std::move(read->first);
}

base::Result<Facts> copy_back(const std::string& backup, const std::string& to, bool beside_original) {
  auto read = read_backup(backup);
  if (!read) return std::unexpected(read.error());
  if (!beside_original) {
    if (auto alone = check_original(read->first, to); !alone) return std::unexpected(alone.error());
  }
  if (auto begun = begin(to, "restored data folder"); !begun) return std::unexpected(begun.error());
  const auto found = copy_tree(data_of(backup), to);
  if (!found) return std::unexpected(found.error());
  if (auto same = same_files(backup, read->second, found->files); !same) return std::unexpected(same.error());
  return std::move(read->first);
}

void give_up(const std::string& restored) {
  std::error_code ignored;
  if (exists(restored + "/" + kUnfinished) && !exists(restored + "/format"))
    fs::remove_all(restored, ignored);
}

base::Status open_for_servers(const std::string& restored) {
  if (auto synced = sync_disk(restored); !synced) return synced;
  if (auto written = base::write_whole_file(restored + "/format", base::folder_format_line()); !written)
    return written;
  return end(restored);
}

}  // namespace sandglass::replay_tools::backup
