// Copies and hashes of all files below a folder. Folders are opened one below the other and never through a
// symbolic link: what is copied may belong to somebody less trusted than who copies it.
//
// Thread rule: pure functions of the disk. Errors: io_error, disk_full, path_refused for what is neither file
// nor folder, with the path.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "engine/base/hash.h"
#include "engine/base/result.h"

namespace sandglass::replay_tools::backup {

namespace base = engine::base;

/// Path below the folder → SHA-256 of the file's bytes.
using Hashes = std::map<std::string, base::Hash256>;

struct Tree {
  Hashes files;
  std::uint64_t bytes = 0;
};

/// Whether a name directly in a folder is left out, with what is below it. `below`: the folder's path,
/// empty for the top.
using LeaveOut = std::function<bool(std::string_view below, std::string_view name)>;

/// Files and folders get the modes 0600 and 0700. `to` is made if it is not there; its parent must be, and no
/// file of the same path. Nothing is synced: see sync_disk.
base::Result<Tree> copy_tree(const std::string& from, const std::string& to, const LeaveOut& leave_out = {});
base::Result<Tree> hash_tree(const std::string& folder);

/// Everything that was written to the file system of this folder is on the disk.
base::Status sync_disk(const std::string& folder);

/// A line a file, "<64 hex digits>  <path>", as sha256sum writes and checks them.
std::string to_text(const Hashes& files);
/// record_damaged, with the line's number.
base::Result<Hashes> parse_hashes(std::string_view text);

/// The first file that is missing, changed or too much; empty: they are equal.
std::string difference(const Hashes& wanted, const Hashes& found);

}  // namespace sandglass::replay_tools::backup
