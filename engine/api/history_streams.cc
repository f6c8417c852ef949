#include "engine/api/history_streams.h"

#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "engine/api/run_access.h"

namespace sandglass::engine::api {

namespace {

constexpr std::size_t kPage = 64;

v1::HistoryRecord to_message(const core::StoredRecord& record) {
  v1::HistoryRecord message;
  message.set_format(record.format);
  message.set_stream(record.stream.bytes());
  message.set_seq(record.seq);
  message.set_header(record.header);
  for (const auto& slot : record.slots) {
    auto& out = *message.add_slots();
    out.set_encoding(static_cast<std::uint32_t>(slot->encoding));
    out.set_bytes(slot->bytes);
  }
  return message;
}

v1::HistoryRecord to_message(const core::OrderedRecord& record) {
  v1::HistoryRecord message = to_message(record.record);
  auto& link = *message.mutable_link();
  link.set_sequence(record.link.sequence);
  link.set_epoch(record.link.epoch);
  link.set_leaf(std::string(record.link.leaf.view()));
  link.set_chain(std::string(record.link.chain.view()));
  return message;
}

/// Reads page by page on the pool; `read` gives the records from a position on.
class PagedRecords final : public Stream<v1::HistoryRecord>,
                           public std::enable_shared_from_this<PagedRecords> {
 public:
  using Page = base::Result<std::vector<v1::HistoryRecord>>;
  using Read = std::function<Page(std::uint64_t from, std::size_t limit)>;
  using Position = std::uint64_t (*)(const v1::HistoryRecord&);
  /// Who may not read is told so by the first answer.
  using Check = std::function<void(Answer<bool>)>;

  PagedRecords(base::TaskRunner& pool, Read read, Position position, std::uint64_t from, std::uint64_t limit,
               Check check)
      : pool_(pool),
        read_(std::move(read)),
        position_(position),
        from_(from == 0 ? 1 : from),
        left_(limit == 0 ? std::numeric_limits<std::uint64_t>::max() : limit),
        check_(std::move(check)) {}

  void next(Answer<std::optional<v1::HistoryRecord>> answer) override {
    if (!check_) return read_on(std::move(answer));
    std::exchange(check_, nullptr)(
        [self = shared_from_this(), answer = std::move(answer)](base::Result<bool> allowed) mutable {
          if (!allowed) return answer(std::unexpected(allowed.error()));
          self->read_on(std::move(answer));
        });
  }
  void stop() override {}  // every answer comes soon by itself

 private:
  void read_on(Answer<std::optional<v1::HistoryRecord>> answer) {
    if (!ready_.empty()) {
      auto record = std::move(ready_.front());
      ready_.pop_front();
      return answer(std::optional(std::move(record)));
    }
    if (left_ == 0) return answer(std::optional<v1::HistoryRecord>());
    pool_.run(
        [self = shared_from_this(), answer = std::move(answer)]() mutable { self->fill(std::move(answer)); });
  }

  void fill(Answer<std::optional<v1::HistoryRecord>> answer) {
    auto page = read_(from_, static_cast<std::size_t>(std::min<std::uint64_t>(kPage, left_)));
    if (!page) return answer(std::unexpected(page.error()));
    left_ = page->empty() ? 0 : left_ - page->size();
    for (auto& record : *page) {
      from_ = position_(record) + 1;
      ready_.push_back(std::move(record));
    }
    read_on(std::move(answer));
  }

  base::TaskRunner& pool_;
  const Read read_;
  const Position position_;
  std::uint64_t from_;
  std::uint64_t left_;
  Check check_;
  std::deque<v1::HistoryRecord> ready_;
};

template <class Records>
PagedRecords::Page page_of(base::Result<Records> records) {
  if (!records) return std::unexpected(records.error());
  std::vector<v1::HistoryRecord> page;
  for (const auto& record : *records) page.push_back(to_message(record));
  return page;
}

base::Error not_for_one_tenant() {
  return {base::Code::permission_denied,
          "this holds things of several tenants; only admins and the installation's own auditors read it "
          "(--as auditor)"};
}

/// Runs by their tenant and user; other streams hold things of several tenants.
PagedRecords::Check check_of(const Backend& backend, const Caller& caller,
                             const v1::ReadHistoryRequest& request) {
  const auto stream = core::StreamId::parse(request.stream());
  if (stream && stream->kind != core::StreamKind::run) {
    return [caller](Answer<bool> answer) {
      if (identity::may_read_all_tenants(caller)) return answer(true);
      answer(std::unexpected(not_for_one_tenant()));
    };
  }
  return [&backend, caller, id = request.stream()](Answer<bool> answer) {
    with_run(backend.engine, caller, id, [answer = std::move(answer)](base::Result<RunFacts> facts) mutable {
      if (!facts) return answer(std::unexpected(facts.error()));
      answer(true);
    });
  };
}

}  // namespace

std::shared_ptr<Stream<v1::HistoryRecord>> history_stream(const Backend& backend, const Caller& caller,
                                                          const v1::ReadHistoryRequest& request) {
  const auto stream = core::StreamId::parse(request.stream()).value_or(core::StreamId{});
  return std::make_shared<PagedRecords>(
      backend.pool,
      [&backend, stream](std::uint64_t from, std::size_t limit) {
        return page_of(backend.reader.read_stream(stream, from, limit));
      },
      [](const v1::HistoryRecord& record) { return record.seq(); }, request.from_seq(), request.limit(),
      check_of(backend, caller, request));
}

std::shared_ptr<Stream<v1::HistoryRecord>> order_stream(const Backend& backend, const Caller& caller,
                                                        const v1::ReadOrderRequest& request) {
  const auto partition = static_cast<core::PartitionId>(request.partition());
  return std::make_shared<PagedRecords>(
      backend.pool,
      [&backend, partition](std::uint64_t from, std::size_t limit) {
        return page_of(backend.reader.read_order(partition, from, limit));
      },
      [](const v1::HistoryRecord& record) { return record.link().sequence(); }, request.from_sequence(),
      request.limit(),
      [caller](Answer<bool> answer) {
        if (identity::may_read_all_tenants(caller)) return answer(true);
        answer(std::unexpected(not_for_one_tenant()));
      });
}

}  // namespace sandglass::engine::api
