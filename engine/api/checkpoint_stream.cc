// A checkpoint of the journal that stays for as long as its stream is open.
#include <mutex>
#include <utility>

#include "engine/api/history_streams.h"

namespace sandglass::engine::api {

namespace {

using Next = Answer<std::optional<v1::Checkpoint>>;

class CheckpointStream final : public Stream<v1::Checkpoint>,
                               public std::enable_shared_from_this<CheckpointStream> {
 public:
  explicit CheckpointStream(const Backend& backend) : backend_(backend) {}

  void next(Next answer) override {
    if (!std::exchange(made_, true)) {
      return backend_.pool.run([self = shared_from_this(), answer = std::move(answer)]() mutable {
        self->make(std::move(answer));
      });
    }
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        waiting_ = std::move(answer);
        return;
      }
    }
    answer(std::optional<v1::Checkpoint>());
  }

  void stop() override {
    std::optional<Next> waiting;
    std::shared_ptr<const std::string> ended;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      waiting.swap(waiting_);
      ended.swap(folder_);
    }
    if (waiting) (*waiting)(std::optional<v1::Checkpoint>());
  }

 private:
  void make(Next answer) {
    auto folder = backend_.checkpoint();
    if (!folder) return answer(std::unexpected(folder.error()));
    auto journal = backend_.reader.journal_id();
    if (!journal) return answer(std::unexpected(journal.error()));
    v1::Checkpoint message;
    message.set_folder(**folder);
    message.set_journal_id(*journal);
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) folder_ = std::move(*folder);
    }
    answer(std::optional(std::move(message)));
  }

  const Backend& backend_;
  bool made_ = false;  // of whoever pulls
  std::mutex mutex_;
  bool stopped_ = false;
  std::shared_ptr<const std::string> folder_;
  std::optional<Next> waiting_;
};

}  // namespace

std::shared_ptr<Stream<v1::Checkpoint>> checkpoint_stream(const Backend& backend) {
  return std::make_shared<CheckpointStream>(backend);
}

}  // namespace sandglass::engine::api
