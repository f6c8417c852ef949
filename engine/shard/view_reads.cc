#include "engine/shard/view_reads.h"

#include <utility>

namespace sandglass::engine::shard {

void ViewReads::scan(view::ScanRequest request, ScanDone done) {
  waiting_.emplace(view_.submit(std::move(request)), std::move(done));
}

void ViewReads::get(std::string key, GetDone done) {
  std::string after = key;
  after.push_back('\0');
  scan({.first = std::move(key), .last = std::move(after), .limit = 1},
       [done = std::move(done)](base::Result<view::ScanResult> result) mutable {
         if (!result) return done(std::unexpected(result.error()));
         if (result->rows.empty()) return done(std::nullopt);
         done(std::move(result->rows.front().value));
       });
}

bool ViewReads::poll() {
  answers_.clear();
  view_.poll(answers_);
  const bool any = !answers_.empty();
  auto answers = std::move(answers_);
  for (auto& answer : answers) {
    const auto found = waiting_.find(answer.ticket);
    if (found == waiting_.end()) continue;
    auto done = std::move(found->second);
    waiting_.erase(found);
    done(std::move(answer.result));
  }
  answers_ = std::move(answers);
  return any;
}

}  // namespace sandglass::engine::shard
