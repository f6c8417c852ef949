#include "engine/server/compose/standby.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/server/compose/belongings.h"

namespace sandglass::engine::server::compose {
namespace {

using base::Code;
using journal::kafka::client::LeaseHolder;

constexpr std::int64_t kLookEveryMs = 200;
constexpr std::size_t kIdBytes = 8;

std::string short_id(std::string_view bytes) {
  return base::to_hex(bytes.substr(0, kIdBytes));
}

/// Which blob store it is, whichever way leads to it: a file in it, made by the first engine that asks.
base::Result<std::string> store_id(const std::string& blobs, base::Random& random) {
  if (::mkdir(blobs.c_str(), 0700) != 0 && errno != EEXIST)
    return std::unexpected(base::system_error("cannot make the blob folder", blobs, errno));
  const std::string path = blobs + "/id";
  if (::access(path.c_str(), F_OK) != 0) {
    std::array<std::uint8_t, kIdBytes> bytes{};
    random.fill(bytes);
    const std::string made = base::to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    // Beside it first: of two engines that do so at once one is the first, and both read that one's.
    const std::string mine = path + "." + made;
    if (auto written = base::write_whole_file(mine, made + "\n"); !written)
      return std::unexpected(written.error());
    const bool linked = ::link(mine.c_str(), path.c_str()) == 0 || errno == EEXIST;
    const int reason = errno;
    ::unlink(mine.c_str());
    if (!linked) return std::unexpected(base::system_error("cannot make the file", path, reason));
  }
  auto text = base::read_whole_file(path, 64, base::Links::refuse);
  if (!text) return std::unexpected(text.error());
  while (!text->empty() && text->back() == '\n') text->pop_back();
  if (text->size() == 2 * kIdBytes && text->find_first_not_of("0123456789abcdef") == std::string::npos)
    return text;
  return base::fail(Code::record_damaged,
                    "the file " + path + " does not name a blob store; remove it and start again");
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The folder's path may be another for each process of it; the folder itself is not.
base::Result<std::string> place_of(const std::string& folder, const std::string& host) {
  struct stat about{};
  if (::stat(folder.c_str(), &about) != 0)
    return std::unexpected(base::system_error("cannot look at", folder, errno));
  base::Sha256 hash;
  hash.update(host).update_u64(about.st_dev).update_u64(about.st_ino);
  return short_id(hash.finish().view());
}

/// Of two processes with one folder's id at most one has that folder, whose lock it holds.
bool is_served_elsewhere(const LeaseHolder& holder, const LeaseHolder& self) {
  if (holder.folder != self.folder || holder.place == self.place || holder.host != self.host) return false;
  const int process = std::atoi(holder.process.c_str());
  return process > 0 && (::kill(process, 0) == 0 || errno == EPERM);
}

base::Status check_holder(const LeaseHolder& holder, const LeaseHolder& self, const std::string& topic) {
  if (is_served_elsewhere(holder, self)) {
    return base::fail(Code::topic_foreign,
                      holder.text() + " serves topic " + topic +
                          " and has this data folder's id: one of the two is a copy of the other. A folder "
                          "that shall stand by is a new one, with an id of its own: docs/guides/standby.md "
                          "says what it must have of the other");
  }
  if (holder.key != self.key) {
    return base::fail(Code::topic_foreign,
                      holder.text() + " serves topic " + topic +
                          ", and its tenant key is another: give this folder a copy of its keys/tenant, or "
                          "choose another topic with kafka.topic");
  }
  if (holder.blobs != self.blobs) {
    return base::fail(Code::topic_foreign,
                      holder.text() + " serves topic " + topic +
                          ", and keeps its blobs where this engine cannot reach them: what stands by must "
                          "have the same blob store. Mount one shared folder as `blobs` of both data "
                          "folders, or choose another topic with kafka.topic");
  }
  return {};
}

/// Why the view cannot be kept warm, if waiting does not change it.
base::Status stand_by(journal::kafka::KafkaJournal& journal) {
  for (core::PartitionId partition = 0; partition < journal.meta().partitions; ++partition) {
    const auto standing = journal.standing(partition);
    if (standing.error && standing.error->code != Code::unavailable) return std::unexpected(*standing.error);
    journal.stand_by(partition);  // no change where it does already
  }
  return {};
}

}  // namespace

base::Result<LeaseHolder> lease_name(const base::DataFolder& folder, const std::string& tenant_key,
                                     base::Random& random) {
  auto blobs = store_id(folder.blobs(), random);
  if (!blobs) return std::unexpected(blobs.error());
  const std::string host = host_name();
  auto place = place_of(folder.path(), host);
  if (!place) return std::unexpected(place.error());
  return LeaseHolder{.host = host,
                     .process = std::to_string(::getpid()),
                     .folder = folder.id(),
                     .blobs = std::move(*blobs),
                     .key = short_id(key_check_of(tenant_key)),
                     .place = std::move(*place)};
}

base::Result<bool> wait_for_lease(Lease& lease, journal::kafka::KafkaJournal& journal,
                                  const LeaseHolder& self, const KafkaSettings& kafka,
                                  const StandbyPorts& ports) {
  bool shall_take = kafka.take_over;
  bool takes = false;
  bool stood_by = false;
  // What was told to an engine that has ended meanwhile is not for this one.
  if (ports.told_to_take_over) static_cast<void>(ports.told_to_take_over());
  std::string told;
  while (true) {
    const Lease::Standing standing = lease.wait(kLookEveryMs);
    if (standing.error) return std::unexpected(*standing.error);
    if (standing.state == Lease::State::ours) break;
    if (takes && standing.state == Lease::State::joining) break;  // the other is fenced instead
    if (ports.ends && ports.ends()) return base::fail(Code::cancelled, "it was told to end");
    const std::string holder = standing.holder.text();
    if (standing.state == Lease::State::others) {
      // Before anything is taken from it.
      if (auto fits = check_holder(standing.holder, self, kafka.topic); !fits)
        return std::unexpected(fits.error());
      if (!shall_take && holder != told) {
        base::log(base::LogLevel::info, "stands_by", {{"topic", kafka.topic}, {"serves", holder}});
        told = holder;
        stood_by = true;
        if (ports.standing_by) ports.standing_by(told);
      }
      if (stood_by && ports.told_to_take_over && ports.told_to_take_over()) {
        base::log(base::LogLevel::info, "told_to_take_over", {{"topic", kafka.topic}, {"from", holder}});
        if (ports.taking_over) ports.taking_over(holder);
        shall_take = true;
      }
      if (std::exchange(shall_take, false)) {
        takes = true;
        told.clear();  // whom it stands by for afterwards is said again
        lease.take();
      }
    }
    if (!stood_by) continue;
    if (auto status = stand_by(journal); !status) return std::unexpected(status.error());
  }
  if (stood_by) base::log(base::LogLevel::info, "takes_over", {{"topic", kafka.topic}});
  return stood_by;
}

}  // namespace sandglass::engine::server::compose
