// What takes as much as it can get, and the neighbour that must not notice.
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/security/attack/attack.h"

namespace sandglass::tests::attack {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

void fill_file(int fd) {
  const std::vector<char> bytes(kPiece, 'm');
  while (::write(fd, bytes.data(), bytes.size()) > 0) {
  }
}

[[noreturn]] void take_memory(bool locked) {
  for (;;) {
    void* piece = ::mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) sleep_for_ever();
    if (locked) ::mlock(piece, kPiece);
    std::memset(piece, 1, kPiece);
  }
}

[[noreturn]] void take_pipes() {
  const std::vector<char> bytes(kPiece, 'p');
  for (;;) {
    int ends[2];
    if (::pipe2(ends, O_NONBLOCK) != 0) break;
    ::fcntl(ends[1], F_SETPIPE_SZ, kPiece);
    while (::write(ends[1], bytes.data(), bytes.size()) > 0) {
    }
  }
  if (::fork() == 0) {
    ::syscall(SYS_close_range, 3u, ~0u, 0);
    take_pipes();
  }
  sleep_for_ever();
}

[[noreturn]] void take_shared() {
  for (;;) {
    const int id = ::shmget(IPC_PRIVATE, kPiece, IPC_CREAT | 0600);
    void* piece = id < 0 ? nullptr : ::shmat(id, nullptr, 0);
    if (id < 0 || piece == reinterpret_cast<void*>(-1)) sleep_for_ever();
    std::memset(piece, 1, kPiece);
  }
}

/// Pages of the whole machine in buffers of TCP and UDP.
std::uint64_t socket_pages() {
  std::ifstream file("/proc/net/sockstat");
  std::uint64_t pages = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(" mem ");
    if ((line.starts_with("TCP:") || line.starts_with("UDP:")) && at != std::string::npos)
      pages += std::strtoull(line.c_str() + at + 5, nullptr, 10);
  }
  return pages;
}

/// A socket of its own that listens or is bound, on loopback.
int bound_socket(int type, sockaddr_in& where) {
  const int fd = ::socket(AF_INET, type | SOCK_NONBLOCK, 0);
  where = {};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  ::bind(fd, reinterpret_cast<sockaddr*>(&where), size);
  if (type == SOCK_STREAM) ::listen(fd, 1);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size);
  return fd;
}

/// As much in the buffers of loopback sockets as goes; tells how many MiB the machine has in them more.
int take_sockets() {
  const std::uint64_t before = socket_pages();
  const std::vector<char> bytes(60'000, 's');
  constexpr int kLarge = 1 << 30;
  for (int i = 0; i < 450; ++i) {
    const int type = i % 2 == 0 ? SOCK_STREAM : SOCK_DGRAM;
    sockaddr_in where;
    const int taker = bound_socket(type, where);
    const int giver = ::socket(AF_INET, type | SOCK_NONBLOCK, 0);
    if (taker < 0 || giver < 0) break;
    ::setsockopt(taker, SOL_SOCKET, SO_RCVBUF, &kLarge, sizeof kLarge);
    ::setsockopt(giver, SOL_SOCKET, SO_SNDBUF, &kLarge, sizeof kLarge);
    ::connect(giver, reinterpret_cast<const sockaddr*>(&where), sizeof where);
    for (int sent = 0; sent < 200 && ::send(giver, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0; ++sent) {
    }
  }
  const std::uint64_t after = socket_pages();
  std::printf("%llu\n", static_cast<unsigned long long>(after > before ? (after - before) >> 8 : 0));
  return 0;
}

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

int memory(char** argv) {  // B2, A13
  const std::string_view kind = argv[0] == nullptr ? "plain" : argv[0];
  if (kind == "plain" || kind == "locked") take_memory(kind == "locked");
  if (kind == "many") {
    for (int i = 0; i < 16; ++i) {
      if (::fork() == 0) take_memory(false);
    }
  }
  if (kind == "shm") {
    fill_file(::open("/dev/shm/fill", O_WRONLY | O_CREAT, 0600));
    fill_file(::open("/tmp/fill", O_WRONLY | O_CREAT, 0600));
    take_memory(false);
  }
  if (kind == "memfd") fill_file(static_cast<int>(::syscall(SYS_memfd_create, "fill", 0)));
  if (kind == "pipes") take_pipes();
  if (kind == "sysv") take_shared();
  if (kind == "sockets") return take_sockets();
  sleep_for_ever();
}

int forks(char** argv) {  // B1, FR-142
  const bool bomb = argv[0] == nullptr || std::string_view(argv[0]) == "bomb";
  if (bomb) {
    for (;;) ::fork();
  }
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) sleep_for_ever();
    if (pid < 0 && errno == EAGAIN) ++refused;
  }
  std::printf("refused %s\n", refused > 0 ? "some" : "none");
  std::fflush(stdout);
  ::kill(0, SIGKILL);
  return 0;
}

int disk(char** argv) {  // A11
  const int fd = ::open("/workspace/fill", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  fill_file(fd);
  std::printf("%s\n", error_name(errno).c_str());
  if (argv[0] != nullptr && std::string_view(argv[0]) == "remove") {
    const timespec while_it_is_full{1, 0};
    ::nanosleep(&while_it_is_full, nullptr);
    ::unlink("/workspace/fill");
  }
  return 0;
}

int inodes(char**) {
  ::mkdir("/workspace/many", 0755);
  for (int i = 0; i < 10'000'000; ++i) {
    const std::string name = "/workspace/many/" + std::to_string(i);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return std::printf("%s\n", error_name(errno).c_str()), 0;
    ::close(fd);
  }
  return 1;
}

int spin(char** argv) {  // B3: on every processor that it can have
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  ::sched_setaffinity(0, sizeof all, &all);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 1; i < number(argv, 0, 1); ++i) {
    try {
      threads.emplace_back([] {
        for (volatile unsigned n = 0;; n = n + 1) {
        }
      });
    } catch (const std::exception&) {
      break;  // as many as it gets
    }
  }
  for (volatile unsigned n = 0;; n = n + 1) {
  }
}

int zombies(char** argv) {  // FR-142, FR-143: orphans of orphans
  int refused = 0;
  for (std::uint64_t i = 0; i < number(argv, 0, 1000); ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      (void)!::fork();
      ::_exit(0);
    }
    if (child < 0) ++refused;
    if (child > 0) ::waitpid(child, nullptr, 0);
  }
  int left = 0;
  for (int pid = 2; pid < 40'000; ++pid) {
    std::string stat(256, '\0');
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    stat.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(fd, stat.data(), stat.size()), 0)));
    ::close(fd);
    if (stat.find(") Z ") != std::string::npos) ++left;
  }
  std::printf("refused %d\n", refused);
  if (left > 5) breach("FR-142 %d zombies", left);
  return 0;
}

int descriptors(char**) {  // B17: descriptors on their way count as well
  int opened = 0;
  while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) ++opened;
  const int first_error = errno;
  for (int fd = 3; fd < opened + 3; ++fd) ::close(fd);
  int sent = 0;
  int pair[2];
  bool more = true;
  while (more && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0) {
    while (sent < 1'000'000 && send_descriptors(pair[0], 200, "x")) sent += 200;
    more = errno == EAGAIN && sent < 1'000'000;
  }
  std::printf("%d %s %d\n", opened, error_name(first_error).c_str(), sent);
  return 0;
}

int queues(char** argv) {    // B18
  if (argv[0] != nullptr) {  // is anything of somebody else there?
    const mqd_t theirs = ::mq_open("/attack", O_RDWR);
    if (::shmget(4711, 0, 0) >= 0 || ::semget(4711, 0, 0) >= 0 || ::msgget(4711, 0) >= 0 || theirs >= 0)
      breach("B18 objects of another sandbox or command");
    return 0;
  }
  const int memory_id = ::shmget(4711, 1 << 16, IPC_CREAT | 0666);
  const int semaphore = ::semget(4711, 4, IPC_CREAT | 0666);
  const int queue = ::msgget(4711, IPC_CREAT | 0666);
  const mqd_t posix = ::mq_open("/attack", O_CREAT | O_RDWR, 0666, nullptr);
  std::printf("%d%d%d %s\n", memory_id >= 0, semaphore >= 0, queue >= 0, posix >= 0 ? "posix" : "no posix");
  return 0;
}

int counters(char** argv) {  // B17: for each of these the machine has so many for one user
  const bool look = argv[0] != nullptr;
  const auto more = [&](const char* name, auto take) {
    int taken = 0;
    while (taken < (look ? 1 : 200'000) && take(taken)) ++taken;
    const bool for_nobody = errno == EACCES;  // POSIX queues, where the machine mounts them for root alone
    if (look && taken == 0 && !for_nobody)
      breach("B17 others have left no %s: %s", name, error_name(errno).c_str());
    if (!look) std::printf("%s %s\n", name, taken > 0 ? "some" : "none");
  };
  more("inotify", [](int) { return ::syscall(SYS_inotify_init1, O_CLOEXEC) >= 0; });
  more("timers", [](int) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    timer_t timer{};
    return ::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
  });
  more("queues", [](int number) {
    const std::string name = "/attack-" + std::to_string(number);
    return ::mq_open(name.c_str(), O_CREAT | O_RDWR, 0600, nullptr) >= 0;
  });
  std::printf("done\n");
  std::fflush(stdout);
  if (!look) sleep_for_ever();
  return 0;
}

int neighbour(char** argv) {
  std::printf("working\n");
  std::fflush(stdout);
  const std::int64_t until = now_ms() + static_cast<std::int64_t>(number(argv, 0, 1000));
  int rounds = 0;
  for (; now_ms() < until && (rounds <= 10 || ::access("stop", F_OK) != 0); ++rounds) {
    void* piece = ::mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) breach("no memory");
    if (piece != MAP_FAILED) {
      std::memset(piece, 1, kPiece);
      ::munmap(piece, kPiece);
    }
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    if (child < 0) breach("no process: %s", error_name(errno).c_str());
    if (child > 0) ::waitpid(child, nullptr, 0);
    const int fd = ::open("neighbour", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ::write(fd, "n", 1) != 1) breach("no file: %s", error_name(errno).c_str());
    if (fd >= 0) ::close(fd);
    if (breaches() > 10) break;
    const timespec pause{0, 5'000'000};
    ::nanosleep(&pause, nullptr);
  }
  std::printf("rounds %s\n", rounds > 10 ? "many" : "few");
  return 0;
}

}  // namespace sandglass::tests::attack
