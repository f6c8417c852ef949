#include "replay-tools/cli/interrupts.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

namespace sandglass::replay_tools::cli {

namespace {

sigset_t ours() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

void raise_event(int fd) {
  const std::uint64_t one = 1;
  while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

}  // namespace

void Interrupts::block() {
  const sigset_t signals = ours();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Interrupts::Interrupts(std::function<void(int)> on_interrupt) : on_interrupt_(std::move(on_interrupt)) {
  const sigset_t signals = ours();
  signals_.reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  end_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] { run(); });
}

Interrupts::~Interrupts() {
  raise_event(end_.get());
  thread_.join();
}

void Interrupts::run() {
  for (;;) {
    std::array<pollfd, 2> polled = {{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
    const int number = ++count_;
    raise_event(event_.get());
    on_interrupt_(number);
  }
}

}  // namespace sandglass::replay_tools::cli
