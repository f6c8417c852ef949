#include "tests/simulation/checks.h"

#include <map>
#include <optional>

#include "engine/codec/messages.h"
#include "engine/codec/record.h"
#include "engine/run/codec/codec.h"
#include "engine/view/keys.h"
#include "tests/support/made_anew.h"

namespace sandglass::tests::simulation {
namespace {

namespace core = engine::core;
namespace codec = engine::codec;
namespace fold = engine::fold;
namespace view = engine::view;

/// Records of a partition in order, with their links.
std::vector<core::OrderedRecord> read_partition(const view::MemoryDisk& disk, core::PartitionId partition,
                                                std::vector<std::string>& violations) {
  std::vector<core::OrderedRecord> all;
  const view::KeyRange range = view::order_range(partition);
  for (auto row = disk.rows().lower_bound(range.first); row != disk.rows().end() && row->first < range.last;
       ++row) {
    const auto link = codec::decode_order(view::parse_order_key(row->first)->sequence, row->second);
    const auto bytes = link ? disk.get(view::record_key(link->stream, link->stream_seq)) : std::nullopt;
    auto record = bytes ? codec::decode_record(link->stream, link->stream_seq, *bytes)
                        : engine::base::fail(engine::base::Code::record_damaged, "no record");
    if (!record) {
      violations.push_back("order row without a readable record: " + record.error().message);
      continue;
    }
    all.push_back({*link, std::move(*record)});
  }
  return all;
}

/// What is synced, read at once.
class DiskView final : public view::View {
 public:
  explicit DiskView(const view::MemoryDisk& disk) : disk_(disk) {}
  view::ReadTicket submit(view::ScanRequest) override { return 0; }
  void poll(std::vector<view::ReadAnswer>&) override {}
  engine::base::Result<view::ScanResult> scan_now(const view::ScanRequest& request) const override {
    return disk_.scan(request);
  }

 private:
  const view::MemoryDisk& disk_;
};

}  // namespace

void check_chains(const view::MemoryDisk& disk, std::uint16_t partitions, std::string_view journal_id,
                  std::vector<std::string>& violations) {
  for (core::PartitionId partition = 0; partition < partitions; ++partition) {
    engine::base::Hash256 chain = codec::genesis_chain(journal_id, partition);
    core::Sequence expected = 0;
    for (const auto& [link, record] : read_partition(disk, partition, violations)) {
      const std::string where =
          "partition " + std::to_string(partition) + " sequence " + std::to_string(link.sequence);
      if (link.sequence != ++expected) violations.push_back(where + ": gap in the order");
      chain = codec::chain_hash(chain, partition, link.sequence, link.epoch, link.leaf);
      if (link.chain != chain) violations.push_back(where + ": chain broken");
      if (codec::leaf_hash(record) != link.leaf)
        violations.push_back(where + ": leaf does not match the record");
    }
  }
}

void check_view(const view::MemoryDisk& disk, const fold::Registry& kinds,
                std::vector<std::string>& violations) {
  const DiskView view(disk);
  const auto made = make_anew(view, kinds);
  if (!made) {
    violations.push_back("the view cannot be made anew: " + made.error().message);
    return;
  }
  for (std::string& each : differences({disk.rows().begin(), disk.rows().end()}, *made))
    violations.push_back(std::move(each));
}

std::string dump(const view::MemoryDisk& disk, std::uint16_t partitions) {
  std::multimap<std::int64_t, std::string> lines;
  std::vector<std::string> ignored;
  for (core::PartitionId partition = 0; partition < partitions; ++partition) {
    for (const auto& [link, record] : read_partition(disk, partition, ignored)) {
      const auto header = codec::decode_header(record);
      if (!header) {
        lines.emplace(0, record.stream.text() + " #" + std::to_string(record.seq) + " cannot be read");
        continue;
      }
      std::string line = std::to_string(header->time_ms) + " e" + std::to_string(header->epoch) + " " +
                         record.stream.text().substr(0, 12) + " #" + std::to_string(record.seq) + " ";
      if (header->consumed) line += "from " + header->consumed->source.text().substr(0, 12) + " ";
      if (header->continues != 0) line += "continues #" + std::to_string(header->continues) + " ";
      if (header->unanswered) line += "unanswered ";
      for (const auto& event : header->events) {
        const bool is_run = record.stream.kind == core::StreamKind::run;
        line += is_run ? std::string(engine::run::codec::event_name(event.type)) : std::to_string(event.type);
        line += " ";
      }
      for (const auto& message : header->messages) {
        line +=
            std::string(codec::message_name(message.type)) + "->" + message.target.text().substr(0, 12) + " ";
      }
      for (const auto& timer : header->timers_started)
        line += "+" + timer.key + "@" + std::to_string(timer.due_ms) + " ";
      for (const auto& timer : header->timers_ended) line += "-" + timer.key + " ";
      lines.emplace(header->time_ms, std::move(line));
    }
  }
  std::string text;
  for (const auto& [time, line] : lines) text += line + "\n";
  return text;
}

}  // namespace sandglass::tests::simulation
