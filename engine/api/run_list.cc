#include "engine/api/run_list.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/api/run_access.h"
#include "engine/api/run_text.h"
#include "engine/base/hash.h"
#include "engine/codec/record.h"
#include "engine/fold/project.h"
#include "engine/identity/access.h"
#include "engine/run/view/attributes.h"
#include "engine/run/view/filter.h"
#include "engine/view/keys.h"

namespace sandglass::engine::api {

namespace {

namespace v1 = ::sandglass::v1;

constexpr std::uint32_t kDefaultPage = 50;
constexpr std::uint32_t kLongestPage = 500;
constexpr std::size_t kRowsPerScan = 128;
// A page may be short, and a count in parts, with a token to go on, rather than take for ever.
constexpr std::size_t kRowsPerCall = 20'000;
constexpr std::size_t kRowsPerCount = 200'000;
constexpr std::size_t kMostMatches = 16;
constexpr std::size_t kSortBytes = 8 + core::StreamId::kBytes;

/// What orders runs over all partitions: start time, then stream; the part of a visibility row's key behind
/// its partition.
std::string sort_of(const std::string& key) {
  const auto parsed = view::parse_index_key(key);
  if (!parsed) return {};
  std::string sort;
  view::put_u64(sort, parsed->sort);
  return sort + parsed->stream;
}

base::Result<std::optional<std::string>> get(const view::View& view, const std::string& key) {
  auto found = view.scan_now({.first = key, .last = key + std::string(1, '\0'), .limit = 1});
  if (!found) return std::unexpected(found.error());
  if (found->rows.empty()) return std::nullopt;
  return std::move(found->rows.front().value);
}

/// The newest runs of one partition that have not been given yet, as keys of visibility rows: from those rows
/// themselves, or from the rows of a match.
class Cursor {
 public:
  struct Run {
    std::string key;
    std::optional<std::string> row;  // its value, where that was read already
  };

  Cursor(const view::View& view, std::uint16_t partition, const std::string& before,
         const run::view::StartedWithin& within = {}, std::optional<std::uint32_t> match = {})
      : view_(view), partition_(partition), matched_(match.has_value()) {
    auto range = match ? run::view::match_rows(partition, *match, within.first_ms, within.last_ms)
                       : run::view::run_rows(partition, within.first_ms, within.last_ms);
    first_ = std::move(range.first);
    last_ = std::move(range.last);
    const auto stream =
        before.empty() ? std::nullopt : core::StreamId::from_bytes(std::string_view(before).substr(8));
    if (stream) {
      const std::uint64_t sort = view::get_u64(before);
      last_ = std::min(
          last_, match ? run::view::match_key(partition, *match, run::view::started_of_run_row(sort), *stream)
                       : view::index_key(partition, view::Index::visibility, sort, *stream));
    }
    ended_ = first_ >= last_;
  }

  /// The newest, or null at the end.
  base::Result<const Run*> front() {
    while (runs_.empty() && !ended_) {
      auto scanned = view_.scan_now({.first = first_, .last = last_, .limit = kRowsPerScan, .reverse = true});
      if (!scanned) return std::unexpected(scanned.error());
      ended_ = !scanned->more;
      if (!scanned->rows.empty()) last_ = scanned->rows.back().key;
      for (auto& row : scanned->rows) take(std::move(row));
    }
    return runs_.empty() ? nullptr : &runs_.front();
  }
  void pop() { runs_.pop_front(); }

 private:
  void take(view::Row row) {
    if (!matched_) return runs_.push_back({std::move(row.key), std::move(row.value)});
    const auto parsed = view::parse_index_key(row.key);
    const auto stream = parsed ? core::StreamId::from_bytes(parsed->stream) : std::nullopt;
    if (!stream) return;
    runs_.push_back({run::view::run_row_key(partition_, run::view::started_of(*parsed), *stream), {}});
  }

  const view::View& view_;
  std::uint16_t partition_;
  bool matched_;
  std::string first_, last_;
  std::deque<Run> runs_;
  bool ended_ = false;
};

/// A cursor for each partition, or for each partition and match where the filter names few.
std::vector<Cursor> cursors_of(const view::View& view, std::uint16_t partitions,
                               const run::view::Filter& filter, const std::string& before) {
  const auto matches = filter.matches();
  const bool by_match = matches && matches->size() <= kMostMatches;
  std::vector<Cursor> cursors;
  for (std::uint16_t partition = 0; partition < partitions; ++partition) {
    if (!by_match) cursors.emplace_back(view, partition, before, filter.started_within());
    if (!by_match) continue;
    for (const std::uint32_t match : *matches)
      cursors.emplace_back(view, partition, before, filter.started_within(), match);
  }
  return cursors;
}

/// A run's search attributes, read when they are asked for. What cannot be read is not there.
class AttributesOf {
 public:
  AttributesOf(const view::View& view, const core::StreamId& stream) : view_(view), stream_(stream) {}
  const run::Attributes& operator()() {
    if (read_) return *read_;
    read_.emplace();
    const auto row = get(view_, view::content_key(stream_));
    if (!row || !*row) return *read_;
    if (auto attributes = run::view::decode_attributes(**row)) read_ = std::move(*attributes);
    return *read_;
  }

 private:
  const view::View& view_;
  const core::StreamId& stream_;
  std::optional<run::Attributes> read_;
};

/// Its rows still say what it was before.
void show_as_damaged(run::view::RunRow& row) {
  row.status = run::RunStatus::stuck;
  row.code = base::Code::stream_damaged;
}
void show_as_damaged(v1::RunSummary& run) {
  run.set_status(v1::RUN_STATUS_STUCK);
  run.set_error_code(static_cast<std::uint32_t>(base::Code::stream_damaged));
}

bool is_damaged(const core::StreamId& stream, std::uint64_t seq, const std::string& row) {
  const auto record = codec::decode_record(stream, seq, row);
  return !record && record.error().code == base::Code::record_damaged;
}

/// Who asks for which runs, and from where on.
struct Question {
  const identity::Caller& caller;
  const run::view::Filter& filter;
  const DamageOf& damage_of;
  std::string before;  // a page token's bytes
};

base::Result<std::string> bytes_of_token(const std::string& token) {
  const auto before = base::from_hex(token);
  if (before && (before->empty() || before->size() == kSortBytes)) return *before;
  return base::fail(base::Code::invalid_argument, "the page token is not one that a list call gave");
}

template <class Take>
base::Status show_one(const view::View& view, const Question& question, const Cursor::Run& found,
                      Take& take) {
  const auto stream = core::StreamId::from_bytes(std::string_view(sort_of(found.key)).substr(8));
  auto row = found.row ? base::Result<std::optional<std::string>>(found.row) : get(view, found.key);
  if (!row) return std::unexpected(row.error());
  if (!*row || !stream) return {};
  auto run = run::view::decode_row(**row);
  if (!run) return std::unexpected(run.error());
  if (!identity::may_touch(question.caller, run->tenant, run->user)) return {};
  if (question.damage_of && question.damage_of(*stream)) show_as_damaged(*run);
  AttributesOf attributes(view, *stream);
  if (question.filter.chooses(*stream, *run, std::ref(attributes))) take(*stream, *run);
  return {};
}

/// Shows rows of all partitions, newest first, that the caller may see and the filter chooses. Ends when none
/// is left, or before the next one when `enough` says so or `most_rows` were looked at; then with the token
/// to go on with.
template <class Enough, class Take>
base::Result<std::string> walk(const view::View& view, std::uint16_t partitions, const Question& question,
                               std::size_t most_rows, Enough enough, Take take) {
  std::vector<Cursor> cursors = cursors_of(view, partitions, question.filter, question.before);
  std::string last_sort;
  for (std::size_t seen = 0;; ++seen) {
    Cursor* newest = nullptr;
    std::string newest_sort;
    for (Cursor& cursor : cursors) {
      auto run = cursor.front();
      if (!run) return std::unexpected(run.error());
      if (*run == nullptr) continue;
      std::string sort = sort_of((*run)->key);
      if (newest != nullptr && sort <= newest_sort) continue;
      newest = &cursor;
      newest_sort = std::move(sort);
    }
    if (newest == nullptr) return std::string();
    const bool again = newest_sort == last_sort;  // it has two of the values
    if (!again && seen > 0 && (seen >= most_rows || enough())) return base::to_hex(last_sort);
    if (!again) {
      if (auto shown = show_one(view, question, **newest->front(), take); !shown)
        return std::unexpected(shown.error());
    }
    last_sort = std::move(newest_sort);
    newest->pop();
  }
}

bool wanted(const v1::RunSummary& run, const v1::ListRunsRequest& request) {
  if (!request.workflow().empty() && run.workflow() != request.workflow()) return false;
  if (!request.user().empty() && run.user() != request.user()) return false;
  if (!run.run_id().starts_with(request.id_prefix())) return false;
  return request.status().empty() ||
         std::ranges::find(request.status(), run.status()) != request.status().end();
}

}  // namespace

base::Result<v1::ListRunsReply> list_runs(const view::View& view, std::uint16_t partitions,
                                          const identity::Caller& caller, const v1::ListRunsRequest& request,
                                          const DamageOf& damage_of) {
  auto before = bytes_of_token(request.page_token());
  if (!before) return std::unexpected(before.error());
  const auto filter = run::view::Filter::parse(request.filter());
  if (!filter) return std::unexpected(filter.error());
  const int page =
      static_cast<int>(request.page_size() == 0 ? kDefaultPage : std::min(request.page_size(), kLongestPage));
  v1::ListRunsReply reply;
  auto token = walk(
      view, partitions, {caller, *filter, damage_of, std::move(*before)}, kRowsPerCall,
      [&] { return reply.runs_size() == page; },
      [&](const core::StreamId& stream, const run::view::RunRow& row) {
        v1::RunSummary summary;
        fill_summary(stream, row, 0, summary);
        if (wanted(summary, request)) *reply.add_runs() = std::move(summary);
      });
  if (!token) return std::unexpected(token.error());
  reply.set_next_page_token(std::move(*token));
  return reply;
}

base::Result<v1::CountRunsReply> count_runs(const view::View& view, std::uint16_t partitions,
                                            const identity::Caller& caller,
                                            const v1::CountRunsRequest& request, const DamageOf& damage_of) {
  auto before = bytes_of_token(request.page_token());
  if (!before) return std::unexpected(before.error());
  const auto filter = run::view::Filter::parse(request.filter());
  if (!filter) return std::unexpected(filter.error());
  std::uint64_t runs = 0;
  auto token = walk(
      view, partitions, {caller, *filter, damage_of, std::move(*before)}, kRowsPerCount, [] { return false; },
      [&](const core::StreamId&, const run::view::RunRow&) { ++runs; });
  if (!token) return std::unexpected(token.error());
  v1::CountRunsReply reply;
  reply.set_runs(runs);
  reply.set_next_page_token(std::move(*token));
  return reply;
}

base::Result<v1::RunSummary> find_listed(const view::View& view, std::uint16_t partitions,
                                         const identity::Caller& caller, const core::StreamId& stream) {
  Cursor cursor(view, fold::partition_of(stream, partitions), {});
  for (;; cursor.pop()) {
    auto found = cursor.front();
    if (!found) return std::unexpected(found.error());
    if (*found == nullptr) return std::unexpected(no_such_run(stream.text()));
    if (std::string_view(sort_of((*found)->key)).substr(8) != stream.bytes()) continue;
    const auto run = run::view::decode_row(*(*found)->row);
    if (!run) return std::unexpected(run.error());
    if (!identity::may_touch(caller, run->tenant, run->user)) {
      return std::unexpected(no_such_run(stream.text()));
    }
    v1::RunSummary summary;
    fill_summary(stream, *run, 0, summary);
    return summary;
  }
}

base::Status fill_heads(const view::View& view, v1::ListRunsReply& page) {
  for (v1::RunSummary& run : *page.mutable_runs()) {
    const auto stream = core::StreamId::parse(run.run_id());
    if (!stream) continue;
    auto attributes = get(view, view::content_key(*stream));
    if (!attributes && attributes.error().code != base::Code::record_damaged)
      return std::unexpected(attributes.error());
    if (attributes && *attributes) run.set_attributes(**attributes);
    auto range = view::stream_range(*stream, view::StreamRow::record);
    auto last = view.scan_now(
        {.first = std::move(range.first), .last = std::move(range.last), .limit = 1, .reverse = true});
    if (!last && last.error().code != base::Code::record_damaged) return std::unexpected(last.error());
    if (last && last->rows.empty()) continue;
    const auto key = last ? view::parse_stream_key(last->rows.front().key) : std::nullopt;
    const std::uint64_t head = key && key->rest.size() == 8 ? view::get_u64(key->rest) : 0;
    run.set_head(head);
    if (!last || is_damaged(*stream, head, last->rows.front().value)) show_as_damaged(run);
  }
  return {};
}

}  // namespace sandglass::engine::api
