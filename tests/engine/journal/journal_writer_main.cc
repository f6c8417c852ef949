// A process that writes to a journal until it is killed. Usage: journal_writer FOLDER BATCHES [FILE_LIMIT]
//
// Says each acknowledgement on standard output as a line "partition sequence". After BATCHES acknowledged
// batches (0: never) it kills itself, so that everything is in the log. With FILE_LIMIT, files cannot grow
// over so many bytes, which stands for a full disk: it goes on until a write fails, checks that nothing is
// accepted afterwards (J6), and ends with 0 if all was as it must be.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tests/engine/journal/journal_fixture.h"

namespace sandglass::engine::journal {
namespace {

constexpr std::size_t kInFlight = 8;

void limit_files(std::uint64_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

int after_failure(Journal& journal, std::map<core::PartitionId, Writer>& writers, std::vector<Completed> told,
                  std::size_t submitted) {
  for (auto& [partition, writer] : writers) journal.submit(writer.batch(1));
  while (told.size() < submitted + writers.size()) journal.poll(told);
  for (std::size_t i = submitted; i < told.size(); ++i) {
    if (told[i].completion != Completion::unknown) return 3;
  }
  return journal.own(0) ? 4 : 0;
}

int write_until_killed(const std::string& folder, std::uint64_t batches, std::uint64_t file_limit) {
  auto database = view::Database::open({.path = folder});
  if (!database) return 2;
  auto journal = RocksJournal::open(**database, {.meta = kMeta});
  if (!journal) return 2;
  std::map<core::PartitionId, Writer> writers;
  for (core::PartitionId partition = 0; partition < kPartitions; ++partition) {
    const auto owned = (*journal)->own(partition);
    if (!owned) return 2;
    writers.emplace(partition, Writer(partition, *owned));
  }
  if (file_limit > 0) limit_files(file_limit);
  std::map<Ticket, core::Sequence> last_of;
  std::uint64_t submitted = 0;
  std::vector<Completed> told;
  for (std::size_t seen = 0;;) {
    while (submitted < told.size() + kInFlight) {
      const auto partition = static_cast<core::PartitionId>(submitted++ % kPartitions);
      const Ticket ticket = (*journal)->submit(writers.at(partition).batch(4, 1000));
      last_of[ticket] = writers.at(partition).at().last_sequence;
    }
    (*journal)->poll(told);
    for (; seen < told.size(); ++seen) {
      if (told[seen].completion == Completion::unknown) {
        return after_failure(**journal, writers, std::move(told), submitted);
      }
      std::printf("%u %llu\n", told[seen].partition,
                  static_cast<unsigned long long>(last_of[told[seen].ticket]));
      std::fflush(stdout);
      if (seen + 1 == batches) kill(getpid(), SIGKILL);
    }
  }
}

}  // namespace
}  // namespace sandglass::engine::journal

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  return sandglass::engine::journal::write_until_killed(argv[1], std::strtoull(argv[2], nullptr, 10),
                                                        argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0);
}
