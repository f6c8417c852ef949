// A library that tests load into real programs (LD_PRELOAD): a wall clock that can be set, and a file system
// that runs out of space, or fails otherwise, at the k-th write below a folder. What it does stands in the
// file that SANDGLASS_FAULTS names (tests/support/harness/faults.py writes it), mapped by all processes, so
// that it changes while they run.
//
// Thread rule: any thread. Before the file is mapped, and without one, every call is the real one.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

/// The layout is known to faults.py.
struct Control {
  std::atomic<std::int64_t> wall_off_ms;
  std::atomic<std::int64_t> writes;     // below the folder, so far
  std::atomic<std::int64_t> full_from;  // from this write on they fail; 0: never
  std::atomic<std::int64_t> refused;    // writes that failed
  std::atomic<std::int64_t> error;      // errno of theirs; 0: ENOSPC
  char folder[512];
};

Control* map_control() {
  const char* path = std::getenv("SANDGLASS_FAULTS");
  if (path == nullptr) return nullptr;
  const auto real_open = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  const int fd = real_open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* mapped = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<Control*>(mapped);
}

Control* control() {
  static Control* const kControl = map_control();
  return kControl;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_below(const char* path) {
  const std::size_t length = std::strlen(control()->folder);
  return length != 0 && std::strncmp(path, control()->folder, length) == 0 && path[length] == '/';
}

/// Counts one write, and says whether it must fail.
bool refuses_write() {
  const std::int64_t number = ++control()->writes;
  const std::int64_t from = control()->full_from;
  if (from == 0 || number < from) return false;
  ++control()->refused;
  const auto error = static_cast<int>(control()->error);
  errno = error == 0 ? ENOSPC : error;
  return true;
}

bool refuses(int fd) {
  if (control() == nullptr || control()->folder[0] == '\0') return false;
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char path[1024];
  const auto length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return is_below(path) && refuses_write();
}

/// Making a file or folder takes space, too.
bool refuses_new(int folder, const char* path) {
  if (control() == nullptr || control()->folder[0] == '\0') return false;
  char whole[2048];
  if (path[0] == '/') {
    std::snprintf(whole, sizeof whole, "%s", path);
  } else {
    char link[64];
    std::snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    const auto length = readlink(link, whole, 1024);
    if (length <= 0) return false;
    std::snprintf(whole + length, sizeof whole - static_cast<std::size_t>(length), "/%s", path);
  }
  struct stat info{};
  return is_below(whole) && lstat(whole, &info) != 0 && refuses_write();
}

void shift(timespec* time) {
  if (control() == nullptr || time == nullptr) return;
  const std::int64_t ms = control()->wall_off_ms;
  time->tv_sec += ms / 1000;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto kReal = real<int(clockid_t, timespec*)>("clock_gettime");
  const int result = kReal(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(time);
  return result;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  static const auto kReal = real<int(timeval*, void*)>("gettimeofday");
  const int result = kReal(time, zone);
  if (result == 0 && control() != nullptr) time->tv_sec += control()->wall_off_ms / 1000;
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

ssize_t write(int fd, const void* data, size_t size) {
  static const auto kReal = real<ssize_t(int, const void*, size_t)>("write");
  return refuses(fd) ? -1 : kReal(fd, data, size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  static const auto kReal = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return refuses(fd) ? -1 : kReal(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  static const auto kReal = real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return refuses(fd) ? -1 : kReal(fd, data, size, at);
}

ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto kReal = real<ssize_t(int, const iovec*, int)>("writev");
  return refuses(fd) ? -1 : kReal(fd, parts, count);
}

int fallocate(int fd, int mode, off_t from, off_t size) {
  static const auto kReal = real<int(int, int, off_t, off_t)>("fallocate");
  return refuses(fd) ? -1 : kReal(fd, mode, from, size);
}

int posix_fallocate(int fd, off_t from, off_t size) {
  static const auto kReal = real<int(int, off_t, off_t)>("posix_fallocate");
  return refuses(fd) ? errno : kReal(fd, from, size);
}

int open(const char* path, int flags, ...) {
  static const auto kReal = real<int(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return (flags & O_CREAT) != 0 && refuses_new(AT_FDCWD, path) ? -1 : kReal(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  static const auto kReal = real<int(const char*, int, ...)>("open64");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return (flags & O_CREAT) != 0 && refuses_new(AT_FDCWD, path) ? -1 : kReal(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static const auto kReal = real<int(int, const char*, int, ...)>("openat");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return (flags & O_CREAT) != 0 && refuses_new(folder, path) ? -1 : kReal(folder, path, flags, mode);
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  static const auto kReal = real<int(int, const char*, mode_t)>("mkdirat");
  return refuses_new(folder, path) ? -1 : kReal(folder, path, mode);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto kReal = real<int(const char*, mode_t)>("mkdir");
  return refuses_new(AT_FDCWD, path) ? -1 : kReal(path, mode);
}

}  // extern "C"
