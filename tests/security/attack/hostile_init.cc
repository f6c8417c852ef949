// A first process that does not do its duty (ADV-B22, B25, B26). Which way it is bad is in its limit of open
// files: the one thing that a test can set and that is seen from here.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "sandbox-runtime/frames/init_protocol.h"
#include "sandbox-runtime/frames/tree_stream.h"
#include "tests/security/attack/attack.h"
#include "tests/security/attack/hostile_modes.h"

namespace sandglass::tests::attack {
namespace {

namespace frames = sandbox_runtime::frames;
constexpr int kControl = 3;
constexpr int kBarrier = 4;

bool put(const std::string& packet) {
  return ::send(kControl, packet.data(), packet.size(), MSG_NOSIGNAL) >= 0;
}

void hello() {
  put(encode(frames::Hello{}));
}

[[noreturn]] void wait_for_the_end() {
  for (;;) ::pause();
}

/// Answers every command at once with an end that it has not come to.
[[noreturn]] void lie() {
  std::vector<char> buffer(frames::kMaxPacket);
  for (;;) {
    const ssize_t size = ::recv(kControl, buffer.data(), buffer.size(), 0);
    if (size <= 0) ::_exit(0);
    const auto start = frames::decode<frames::ExecStart>({buffer.data(), static_cast<std::size_t>(size)});
    if (!start) continue;
    frames::ExecEnd end;
    end.number = start->number;
    end.exit_code = 0;
    end.out_total = ~std::uint64_t{0};
    put(encode(end));
    for (const std::uint8_t stream : {1, 2, 7, 255}) {
      put(encode(frames::Output{start->number, stream, ~std::uint64_t{0} - 3, "lies"}));
      put(encode(frames::Output{start->number, stream, ~std::uint64_t{0}, {}}));
    }
  }
}

/// Answers a request for a tree with one that has no end, as fast as the other side takes it.
[[noreturn]] void grow(bool names) {
  std::vector<char> buffer(frames::kMaxPacket);
  std::string piece;
  const frames::TreeHeader file{frames::TreeItem::file, "endless", false, ~std::uint64_t{0}, {}};
  const frames::TreeHeader name{frames::TreeItem::refused,
                                std::string(200, 'n') + "/" + std::string(200, 'n'), false, 0,
                                std::string(frames::kMaxTreePath, 'w')};
  std::uint64_t id = 0;
  std::uint64_t sent = 0;
  std::uint64_t taken = 0;
  for (;;) {
    while (id != 0 && sent + frames::kChunk <= taken + frames::kTransferWindow) {
      if (names) frames::put_tree_header(piece, name);
      if (!names && sent == 0) frames::put_tree_header(piece, file);
      if (!names) frames::put_tree_data(piece, std::string(4'000, 'c'));
      if (!put(encode(frames::Chunk{id, piece}))) ::_exit(0);
      sent += piece.size();
      piece.clear();
    }
    const ssize_t size = ::recv(kControl, buffer.data(), buffer.size(), 0);
    if (size <= 0) ::_exit(0);
    const std::string_view packet(buffer.data(), static_cast<std::size_t>(size));
    if (const auto ping = frames::decode<frames::Ping>(packet)) put(encode(frames::Pong{ping->nonce, 0}));
    if (const auto open = frames::decode<frames::GetOpen>(packet)) id = open->id;
    if (const auto ack = frames::decode<frames::Ack>(packet)) taken = ack->offset;
    if (frames::decode<frames::TransferCancel>(packet)) id = 0;
  }
}

}  // namespace

int be_init() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const auto mode = static_cast<Hostile>(files.rlim_cur - kModeBase);
  std::mt19937_64 random(7);
  switch (mode) {
    case Hostile::closes:
      ::close(kControl);
      wait_for_the_end();
    case Hostile::exits:
      return 0;
    case Hostile::wrong_version:
      put(encode(frames::Hello{9999}));
      wait_for_the_end();
    case Hostile::garbage:
      hello();
      for (;;) {
        std::string packet(1 + random() % 60'000, '\0');
        for (auto& byte : packet) byte = static_cast<char>(random());
        packet[0] = static_cast<char>(random() % 40);
        if (!put(packet)) wait_for_the_end();
      }
    case Hostile::lengths:
      hello();
      for (int type = 0; type < 256; ++type)
        put(std::string(1, static_cast<char>(type)) + std::string(64, '\xff'));
      wait_for_the_end();
    case Hostile::floods: {
      hello();
      const std::string bytes(frames::kChunk, 'f');
      for (std::uint64_t at = 0;; at += bytes.size()) {
        if (!put(encode(frames::Output{1 + at % 7, 1, at, bytes}))) wait_for_the_end();
      }
    }
    case Hostile::lies:
      hello();
      lie();
    case Hostile::gives_descriptors: {
      const std::string packet(8, '\1');
      for (int i = 0; i < 200; ++i) {
        (void)send_descriptors(kControl, 200, packet);
        (void)send_descriptors(kBarrier, 200, packet);
      }
      hello();
      wait_for_the_end();
    }
    case Hostile::crowds_barrier:
      hello();
      for (;;) {
        std::string packet(random() % 100, '\1');
        if (::send(kBarrier, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) wait_for_the_end();
        const std::uint64_t number = random() % 100;
        if (::send(kBarrier, &number, sizeof number, MSG_NOSIGNAL) < 0) wait_for_the_end();
      }
    case Hostile::idle: {  // answers pings, and does nothing else
      hello();
      std::vector<char> buffer(frames::kMaxPacket);
      for (;;) {
        const ssize_t size = ::recv(kControl, buffer.data(), buffer.size(), 0);
        if (size <= 0) return 0;
        const auto ping = frames::decode<frames::Ping>({buffer.data(), static_cast<std::size_t>(size)});
        if (ping) put(encode(frames::Pong{ping->nonce, 0}));
      }
    }
    case Hostile::names_without_end:
    case Hostile::content_without_end:
      hello();
      grow(mode == Hostile::names_without_end);
    case Hostile::silent:
      wait_for_the_end();
    case Hostile::count:
      break;
  }
  return 1;
}

}  // namespace sandglass::tests::attack
