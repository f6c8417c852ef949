// Frames between engine, effect executor and proxy: the stream's framing, and what is made of the messages.
// Input: bytes of a stream. Oracle: bytes in pieces give the same frames as at once; a message that was read
// is written to one that reads the same.
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "activities/effects/effect_codec.h"
#include "engine/base/check.h"
#include "engine/net/codec/network_codec.h"
#include "sandbox-runtime/frames/frame.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace sandglass;
namespace effects = activities::effects;
namespace frames = sandbox_runtime::frames;
using engine::base::UniqueFd;

struct Read {
  std::vector<std::string> frames;
  bool failed = false;
};

/// The frames of the bytes, as they come in pieces of `step`.
Read read_frames(std::string_view bytes, std::size_t step) {
  int ends[2];
  SG_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
  UniqueFd writer(ends[0]);
  const UniqueFd reader(ends[1]);
  frames::FrameReader frames(1 << 16);
  Read read;
  while (!read.failed) {
    const auto piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    if (piece.empty()) writer.reset();
    if (!piece.empty()) SG_CHECK(write(writer.get(), piece.data(), piece.size()) > 0, "write");
    const auto io = frames.fill(reader.get());
    read.failed = !io;
    for (;;) {
      const auto frame = frames.next();
      if (!frame || !*frame) break;
      read.frames.emplace_back(**frame);
    }
    if (piece.empty()) break;
  }
  SG_CHECK(frames.buffered() <= (1 << 16) + (256 << 10), "more is held than may come");
  return read;
}

void check_message(const std::string& bytes) {
  effects::pb::EffectCommand command;
  if (command.ParseFromString(bytes) && command.has_intent()) {
    const auto timed = effects::from_frame(command.intent(), UniqueFd());
    if (timed) {
      (void)effects::target_of(timed->intent);
      (void)timed->permit_expired(1'000'000'000);
      UniqueFd body;
      const auto again = effects::to_frame(*timed, body);
      SG_CHECK(again.has_value(), "an intent that came cannot go");
      SG_CHECK(effects::from_frame(again->intent(), std::move(body))->intent.url == timed->intent.url, "url");
    }
  }
  effects::pb::EffectMessage message;
  if (message.ParseFromString(bytes) && message.has_result()) {
    const auto result = effects::from_frame(message.result());
    const auto again = effects::from_frame(effects::to_frame(effects::Attempt{result, {}}).result());
    SG_CHECK(again.body == result.body && again.headers == result.headers, "another result when written");
  }
  frame::v1::NetworkVerdict verdict;
  if (verdict.ParseFromString(bytes)) (void)engine::net::codec::from_frame(verdict).json();
}

}  // namespace

FUZZ_TARGET(effect_frames) {
  tests::fuzz::Input in(input.substr(0, 30'000));
  if (in.byte() % 2 == 0) return check_message(std::string(in.rest()));
  const auto bytes = in.rest();
  const Read at_once = read_frames(bytes, 30'000);
  const Read in_pieces = read_frames(bytes, 5 + bytes.size() / 50);
  SG_CHECK(at_once.frames == in_pieces.frames && at_once.failed == in_pieces.failed,
           "pieces give other frames");
  for (const std::string& frame : at_once.frames) check_message(frame);
}
