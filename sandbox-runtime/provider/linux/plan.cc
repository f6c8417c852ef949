#include "sandbox-runtime/provider/linux/plan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {
namespace {

using engine::base::Code;
using engine::base::fail;
using engine::base::Result;
using engine::base::UniqueFd;

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr std::uint32_t kMaxFilter = 4096;
constexpr std::uint32_t kMaxEntries = 4096;

std::uint32_t align8(std::size_t size) {
  return static_cast<std::uint32_t>((size + 7) & ~std::size_t{7});
}

/// True if [offset, offset + count * unit) lies in the plan behind its header and is aligned.
bool lies_inside(std::uint64_t offset, std::uint64_t count, std::uint64_t unit, std::uint64_t size,
                 std::uint64_t alignment) {
  return offset >= sizeof(PlanHeader) && offset % alignment == 0 && offset <= size &&
         count * unit <= size - offset;
}

}  // namespace

Result<UniqueFd> seal_plan(PlanHeader header, std::span<const sock_filter> filter,
                           std::span<const BaseEntry> entries) {
  header.magic = kPlanMagic;
  header.version = kPlanVersion;
  header.filter_offset = align8(sizeof(PlanHeader));
  header.filter_count = static_cast<std::uint32_t>(filter.size());
  header.entry_offset = header.filter_offset + align8(filter.size_bytes());
  header.entry_count = static_cast<std::uint32_t>(entries.size());
  std::vector<PlanEntry> table;
  std::string pool;
  const std::uint32_t pool_offset = header.entry_offset + align8(entries.size() * sizeof(PlanEntry));
  const auto add = [&](const std::string& text) {
    const auto offset = static_cast<std::uint32_t>(pool_offset + pool.size());
    pool.append(text).push_back('\0');
    return offset;
  };
  for (const BaseEntry& entry : entries) {
    PlanEntry line{entry.kind, entry.mode,
                   0,          static_cast<std::uint32_t>(entry.path.size()),
                   0,          static_cast<std::uint32_t>(entry.content.size())};
    line.path_offset = add(entry.path);
    line.content_offset = add(entry.content);
    table.push_back(line);
  }
  header.size = static_cast<std::uint32_t>(pool_offset + pool.size());
  std::string bytes(header.size, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!filter.empty()) std::memcpy(bytes.data() + header.filter_offset, filter.data(), filter.size_bytes());
  if (!table.empty()) {
    std::memcpy(bytes.data() + header.entry_offset, table.data(), table.size() * sizeof(PlanEntry));
  }
  pool.copy(bytes.data() + pool_offset, pool.size());
  if (!PlanView::check({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()})) {
    return fail(Code::internal, "the launch plan is too large or not well-formed");
  }
  UniqueFd fd(::memfd_create("sandglass-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || !write_all(fd.get(), bytes) || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return fail(Code::provider_failed, "launch plan: " + error_text(errno));
  }
  return fd;
}

std::optional<PlanView> PlanView::check(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < sizeof(PlanHeader) || bytes.size() > kPlanMaxBytes) return std::nullopt;
  PlanView view;
  view.bytes_ = bytes;
  view.header_ = reinterpret_cast<const PlanHeader*>(bytes.data());
  const PlanHeader& header = *view.header_;
  if (header.magic != kPlanMagic || header.version != kPlanVersion || header.size != bytes.size()) {
    return std::nullopt;
  }
  if (header.filter_count == 0 || header.filter_count > kMaxFilter || header.entry_count > kMaxEntries ||
      !lies_inside(header.filter_offset, header.filter_count, sizeof(sock_filter), header.size, 8) ||
      !lies_inside(header.entry_offset, header.entry_count, sizeof(PlanEntry), header.size, 8)) {
    return std::nullopt;
  }
  for (const PlanEntry& entry : view.entries()) {
    if (!lies_inside(entry.path_offset, std::uint64_t{entry.path_size} + 1, 1, header.size, 1) ||
        !lies_inside(entry.content_offset, std::uint64_t{entry.content_size} + 1, 1, header.size, 1) ||
        bytes[entry.path_offset + entry.path_size] != 0 ||
        bytes[entry.content_offset + entry.content_size] != 0) {
      return std::nullopt;
    }
  }
  return view;
}

std::span<const sock_filter> PlanView::filter() const {
  return {reinterpret_cast<const sock_filter*>(bytes_.data() + header_->filter_offset),
          header_->filter_count};
}

std::span<const PlanEntry> PlanView::entries() const {
  return {reinterpret_cast<const PlanEntry*>(bytes_.data() + header_->entry_offset), header_->entry_count};
}

const char* PlanView::path(const PlanEntry& entry) const {
  return reinterpret_cast<const char*>(bytes_.data() + entry.path_offset);
}

std::string_view PlanView::content(const PlanEntry& entry) const {
  return {reinterpret_cast<const char*>(bytes_.data() + entry.content_offset), entry.content_size};
}

MappedPlan::MappedPlan(int fd) {
  struct stat about{};
  if (::fcntl(fd, F_GET_SEALS) != kSeals || ::fstat(fd, &about) != 0) return;
  if (about.st_size < static_cast<off_t>(sizeof(PlanHeader)) || about.st_size > off_t{kPlanMaxBytes}) return;
  size_ = static_cast<std::size_t>(about.st_size);
  address_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address_ == MAP_FAILED) {
    address_ = nullptr;
    return;
  }
  view_ = PlanView::check({static_cast<const std::uint8_t*>(address_), size_});
}

MappedPlan::~MappedPlan() {
  if (address_ != nullptr) ::munmap(address_, size_);
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
