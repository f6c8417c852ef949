#include "replay-tools/cli/history.h"

#include <utility>

#include "engine/base/data_folder.h"
#include "replay-tools/archive/archive.h"
#include "replay-tools/cli/one_run.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;
namespace core = engine::core;
namespace kafka = engine::journal::kafka;

base::Result<core::StoredRecord> to_record(const api::HistoryRecord& message) {
  const auto stream = core::StreamId::from_bytes(message.stream());
  if (!stream) return base::fail(Code::record_damaged, "the engine sent a record without a stream");
  core::StoredRecord record{
      .format = message.format(), .stream = *stream, .seq = message.seq(), .header = message.header()};
  for (const auto& slot : message.slots()) {
    record.slots.push_back(std::make_shared<const core::Slot>(
        core::Slot{static_cast<core::Encoding>(slot.encoding()), slot.bytes()}));
  }
  return record;
}

base::Result<core::OrderedRecord> to_ordered(const api::HistoryRecord& message) {
  auto record = to_record(message);
  if (!record) return std::unexpected(record.error());
  const auto leaf = engine::base::Hash256::from_bytes(message.link().leaf());
  const auto chain = engine::base::Hash256::from_bytes(message.link().chain());
  if (!leaf || !chain) return base::fail(Code::record_damaged, "the engine sent a record without its links");
  core::OrderLink link{.sequence = message.link().sequence(),
                       .epoch = message.link().epoch(),
                       .stream = record->stream,
                       .stream_seq = record->seq,
                       .leaf = *leaf,
                       .chain = *chain};
  return core::OrderedRecord{std::move(link), std::move(*record)};
}

/// The Reader port over the API. Hashes are computed here, from the bytes as they came.
class RemoteReader final : public engine::journal::Reader {
 public:
  explicit RemoteReader(client::Client& remote) : client_(remote) {}

  base::Result<std::uint16_t> partitions() const override {
    const auto journal = client_.describe_journal();
    if (!journal) return std::unexpected(journal.error());
    return static_cast<std::uint16_t>(journal->partitions());
  }
  base::Result<std::string> journal_id() const override {
    const auto journal = client_.describe_journal();
    if (!journal) return std::unexpected(journal.error());
    return journal->journal_id();
  }
  base::Result<std::vector<core::OrderedRecord>> read_order(core::PartitionId partition, core::Sequence from,
                                                            std::size_t limit) const override {
    api::ReadOrderRequest request;
    request.set_partition(partition);
    request.set_from_sequence(from);
    request.set_limit(limit);
    return collect<core::OrderedRecord>(
        [&](const auto& receiver) { return client_.read_order(request, receiver); }, to_ordered);
  }
  base::Result<std::vector<core::StoredRecord>> read_stream(const core::StreamId& stream,
                                                            std::uint64_t from_seq,
                                                            std::size_t limit) const override {
    api::ReadHistoryRequest request;
    request.set_stream(stream.text());
    request.set_from_seq(from_seq);
    request.set_limit(limit);
    return collect<core::StoredRecord>(
        [&](const auto& receiver) { return client_.read_history(request, receiver); }, to_record);
  }

 private:
  template <class Record, class Read, class Convert>
  static base::Result<std::vector<Record>> collect(Read read, Convert convert) {
    std::vector<Record> records;
    base::Status converted;
    const client::Receiver<api::HistoryRecord> receiver = [&](const api::HistoryRecord& message) {
      auto record = convert(message);
      if (record) {
        records.push_back(std::move(*record));
      } else {
        converted = std::unexpected(record.error());
      }
      return converted.has_value();
    };
    if (auto status = read(receiver); !status) return std::unexpected(status.error());
    if (!converted) return std::unexpected(converted.error());
    return records;
  }

  client::Client& client_;
};

class RemoteJournal final : public OpenedJournal {
 public:
  explicit RemoteJournal(std::unique_ptr<client::Client> connected)
      : client_(std::move(connected)), reader_(*client_) {}
  const engine::journal::Reader& reader() const override { return reader_; }

 private:
  std::unique_ptr<client::Client> client_;
  RemoteReader reader_;
};

class FileJournal final : public OpenedJournal {
 public:
  explicit FileJournal(archive::ArchivedHistory read) : read_(std::move(read)) {}
  const engine::journal::Reader& reader() const override { return read_; }

 private:
  archive::ArchivedHistory read_;
};

}  // namespace

base::Result<History> open_history(Session& session, const HistoryAdapters& adapters,
                                   const std::string& usual) {
  if (session.engine_answers() || !session.options().address.empty()) {
    auto connected = session.reach(usual);
    if (!connected) return std::unexpected(connected.error());
    return History{.journal = std::make_unique<RemoteJournal>(std::move(*connected)), .view = {}};
  }
  auto path = session.folder();
  if (!path) return std::unexpected(path.error());
  auto folder = base::DataFolder::open_read_only(*path);
  if (!folder) return std::unexpected(folder.error());
  auto place = kafka::load_place(folder->file(kafka::kPlaceFile));
  if (!place) return std::unexpected(place.error());
  auto opened = adapters.open_journal(*folder);
  const bool none = !opened && opened.error().code == Code::not_found;
  if (!opened && !(none && *place)) return std::unexpected(opened.error());
  if (!*place) return History{.journal = std::move(*opened), .view = {}};
  TopicView view{.place = std::move(**place), .applied = {}};
  if (opened) {
    auto applied = (*opened)->applied();
    if (!applied) return std::unexpected(applied.error());
    view.applied = std::move(*applied);
  }
  if (view.applied.empty()) return base::fail(Code::not_found, view_note(session, view));
  return History{.journal = std::move(*opened), .view = std::move(view)};
}

base::Result<FileHistory> open_file(const std::string& path) {
  auto read = archive::ArchivedHistory::read(path);
  if (!read) return std::unexpected(read.error());
  const core::StreamId stream = read->stream();
  return FileHistory{.stream = stream,
                     .leaf = read->leaf(),
                     .history = {.journal = std::make_unique<FileJournal>(std::move(*read)), .view = {}}};
}

base::Result<core::StreamId> find_stream(const Session& session, const std::string& text) {
  if (const auto whole = core::StreamId::parse(text)) return *whole;
  if (!session.engine_answers() && session.options().address.empty()) {
    return base::fail(
        Code::usage,
        "a run id has the form run-<32 hex digits>, and where no engine answers all of them are "
        "needed; `sandglass list` has them");
  }
  const auto client = session.reach("operator");
  if (!client) return std::unexpected(client.error());
  const auto id = find_run(**client, text);
  if (!id) return std::unexpected(id.error());
  const auto stream = core::StreamId::parse(*id);
  if (!stream) return base::fail(Code::internal, "the engine lists a run without an id: " + *id);
  return *stream;
}

std::string view_note(const Session& session, const TopicView& view) {
  std::string verify = "audit verify --kafka " + shell_word(view.place.brokers);
  if (view.place.topic != TopicPlace().topic) verify += " --topic " + shell_word(view.place.topic);
  return kafka::describe(view.place, view.applied) +
         ". Start the server once, with its configuration, and it reads the rest; `" + session.hint(verify) +
         "` verifies the topic itself (with --kafka-set or --kafka-file where the brokers ask for more)";
}

base::Error not_here(const Session& session, const History& history, base::Error error) {
  if (error.code == Code::not_found && history.view)
    error.message += "; " + view_note(session, *history.view);
  return error;
}

}  // namespace sandglass::replay_tools::cli
