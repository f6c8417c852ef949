// The launch plan: everything that the child needs to know, in one sealed memfd with a fixed layout (V1). The
// keeper checks version, counts and offsets against the size and interprets no string; the child reads it.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

inline constexpr std::uint32_t kPlanMagic = 0x53474c50;  // "SGLP"
inline constexpr std::uint32_t kPlanVersion = 1;
inline constexpr std::uint32_t kPlanMaxBytes = 16u << 20;

enum PlanFlags : std::uint32_t {
  kPlanRootless = 1,  // user namespace first, one uid
  kPlanNetwork = 2,   // open the proxy listener
};

/// What a line of the base tree is.
enum class EntryKind : std::uint32_t {
  folder = 1,
  file = 2,
  link = 3,         // content is the target
  hide_folder = 4,  // an empty folder is bound over it
  hide_file = 5,    // an empty file is bound over it
};

struct PlanEntry {
  EntryKind kind;
  std::uint32_t mode;
  std::uint32_t path_offset;  // ends with NUL
  std::uint32_t path_size;    // without NUL
  std::uint32_t content_offset;
  std::uint32_t content_size;
};

struct PlanHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t size;
  std::uint32_t flags;
  std::uint32_t uid_base;  // root: inside 0..65535 → base..
  std::uint32_t filter_offset;
  std::uint32_t filter_count;
  std::uint32_t entry_offset;
  std::uint32_t entry_count;
  std::uint32_t reserved;
  std::uint64_t open_files;
  std::uint64_t processes;   // RLIMIT_NPROC; 0: held by a control group
  std::uint64_t work_bytes;  // without a disk
  std::uint64_t work_inodes;
  std::uint64_t tmp_bytes;
  std::uint64_t shm_bytes;
  std::uint64_t cpu_mask[16];  // processors to run on; all zero: as the keeper
};

struct BaseEntry {
  EntryKind kind = EntryKind::folder;
  std::uint32_t mode = 0755;
  std::string path;  // relative to the new root
  std::string content;
};

/// `header`'s offsets, counts, magic, version and size are filled in.
engine::base::Result<engine::base::UniqueFd> seal_plan(PlanHeader header, std::span<const sock_filter> filter,
                                                       std::span<const BaseEntry> entries);

/// Borrowed bytes of a plan that has passed all checks.
class PlanView {
 public:
  static std::optional<PlanView> check(std::span<const std::uint8_t> bytes);

  const PlanHeader& header() const { return *header_; }
  bool has(PlanFlags flag) const { return (header_->flags & flag) != 0; }
  std::span<const sock_filter> filter() const;
  std::span<const PlanEntry> entries() const;
  /// NUL-terminated.
  const char* path(const PlanEntry& entry) const;
  std::string_view content(const PlanEntry& entry) const;

 private:
  std::span<const std::uint8_t> bytes_;
  const PlanHeader* header_ = nullptr;
};

/// Maps a plan read-only for the life of the process part that uses it. Refuses a descriptor without all
/// seals.
class MappedPlan {
 public:
  explicit MappedPlan(int fd);
  ~MappedPlan();
  MappedPlan(const MappedPlan&) = delete;
  MappedPlan& operator=(const MappedPlan&) = delete;

  const std::optional<PlanView>& view() const { return view_; }

 private:
  void* address_ = nullptr;
  std::size_t size_ = 0;
  std::optional<PlanView> view_;
};

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
