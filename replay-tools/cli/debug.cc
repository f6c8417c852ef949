// debug: stepping over a history.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"
#include "replay-tools/cli/slot_text.h"
#include "replay-tools/debugger/debugger.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;
using debugger::Stop;
using nlohmann::ordered_json;

constexpr std::string_view kHelp =
    "  n, Enter  next record        p   previous record\n"
    "  s / ps    next/previous step        o / po    next/previous operation\n"
    "  e / pe    next/previous error       g N       go to record N (0: before the first)\n"
    "  st        state here                d N       difference from here to record N\n"
    "  h         this help                 q         quit";

ordered_json facts_json(const replay::Facts& facts) {
  auto out = ordered_json::object();
  for (const auto& fact : facts) out[fact.path] = fact.value;
  return out;
}

std::string change_mark(const replay::Change& change) {
  switch (change.kind) {
    case replay::Change::Kind::added:
      return paint(Colour::green, "+ " + safe(change.path) + " = " + safe(change.after));
    case replay::Change::Kind::removed:
      return paint(Colour::red, "- " + safe(change.path) + " = " + safe(change.before));
    case replay::Change::Kind::changed:
      return paint(Colour::yellow,
                   "~ " + safe(change.path) + ": " + safe(change.before) + " -> " + safe(change.after));
  }
  return {};
}

std::string described(const replay::Described& what) {
  std::string line = paint(Colour::bold, safe(what.name));
  for (const auto& field : what.fields) {
    if (!field.value.empty()) line += " " + safe(field.path) + "=" + safe(field.value);
  }
  return line;
}

/// What stands in the slots of the frame's record. One that cannot be read is not there: the debugger says
/// elsewhere that the history is damaged.
std::vector<engine::core::SlotPtr> slots_of(const replay::Timeline& timeline, const debugger::Frame& frame) {
  if (frame.seq == 0) return {};
  auto slots = timeline.slots(frame.seq);
  return slots ? std::move(*slots) : std::vector<engine::core::SlotPtr>();
}

ordered_json frame_json(const debugger::Frame& frame, const std::vector<engine::core::SlotPtr>& slots) {
  ordered_json out = {{"seq", frame.seq},     {"last", frame.last},   {"time_ms", frame.time_ms},
                      {"epoch", frame.epoch}, {"cause", frame.cause}, {"leaf", frame.leaf}};
  out["events"] = ordered_json::array();
  for (const auto& event : frame.events) {
    out["events"].push_back({{"name", event.what.name}, {"fields", facts_json(event.what.fields)}});
  }
  out["sent"] = ordered_json::array();
  for (const auto& sent : frame.sent) {
    out["sent"].push_back(
        {{"to", sent.target.text()}, {"name", sent.what.name}, {"fields", facts_json(sent.what.fields)}});
  }
  out["changes"] = ordered_json::array();
  for (const auto& change : frame.changes) {
    out["changes"].push_back({{"path", change.path}, {"before", change.before}, {"after", change.after}});
  }
  out["slots"] = ordered_json::array();
  for (const auto& slot : slots) out["slots"].push_back(slot ? slot_json(*slot) : ordered_json());
  out["pending"] = frame.pending;
  out["state"] = facts_json(frame.state);
  return out;
}

void print_frame(const replay::Timeline& timeline, const debugger::Frame& frame, bool json) {
  const auto slots = slots_of(timeline, frame);
  if (json) {
    print_line(frame_json(frame, slots).dump(-1, ' ', true, ordered_json::error_handler_t::replace));
    return;
  }
  if (frame.seq == 0) {
    print_line(paint(Colour::dim, "before the first of " + std::to_string(frame.last) + " records"));
    return;
  }
  std::string head = paint(Colour::blue, "#" + std::to_string(frame.seq) + "/" + std::to_string(frame.last)) +
                     "  " + show_time(frame.time_ms) + "  epoch " + std::to_string(frame.epoch);
  if (!frame.cause.empty()) head += "  " + safe(frame.cause);
  print_line(head);
  for (const auto& event : frame.events) print_line("  " + described(event.what));
  for (const auto& sent : frame.sent) {
    print_line("  " + paint(Colour::dim, "sends") + " " + described(sent.what) + " to " +
               safe(sent.target.text()));
  }
  for (const auto& timer : frame.timers_started) {
    print_line("  " + paint(Colour::dim, "timer") + " " + safe(timer.key) + " due " +
               show_time(timer.due_ms));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i])
      print_line("  " + paint(Colour::dim, "slot " + std::to_string(i)) + " " + slot_text(*slots[i]));
  }
  for (const auto& change : frame.changes) print_line("    " + change_mark(change));
  for (const auto& action : frame.pending)
    print_line("  " + paint(Colour::dim, "pending") + " " + safe(action));
}

/// One command line of the debugger; false: quit.
class Prompt {
 public:
  Prompt(const replay::Timeline& timeline, debugger::Debugger& stepped, bool json)
      : timeline_(timeline), debugger_(stepped), json_(json) {}

  bool obey(const std::string& line) {
    const auto space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "q" || word == "quit") return false;
    if (word.empty() || word == "n") return step(true, Stop::record);
    if (word == "p") return step(false, Stop::record);
    if (word == "s") return step(true, Stop::step);
    if (word == "ps") return step(false, Stop::step);
    if (word == "o") return step(true, Stop::operation);
    if (word == "po") return step(false, Stop::operation);
    if (word == "e") return step(true, Stop::error);
    if (word == "pe") return step(false, Stop::error);
    if (word == "g" || word == "d") return number(word, rest);
    if (word == "st") return state();
    if (word != "h" && word != "help" && word != "?")
      print_line("there is no command \"" + safe(word) + "\":");
    print_line(kHelp);
    return true;
  }

 private:
  bool step(bool forwards, Stop stop) {
    const bool moved = forwards ? debugger_.next(stop) : debugger_.previous(stop);
    if (moved) {
      print_frame(timeline_, debugger_.frame(), json_);
    } else {
      print_line(paint(Colour::dim, forwards ? "no further one" : "no earlier one"));
    }
    return true;
  }
  bool number(const std::string& word, const std::string& text) {
    std::uint64_t seq = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seq);
    if (failed != std::errc() || end != text.data() + text.size()) {
      print_line(word + " takes the number of a record: " + word + " 3");
    } else if (word == "d") {
      if (seq > debugger_.frame().last) return no_such(seq);
      for (const auto& change : debugger_.difference(debugger_.at(), seq))
        print_line("    " + change_mark(change));
    } else if (debugger_.go_to(seq)) {
      print_frame(timeline_, debugger_.frame(), json_);
    } else {
      return no_such(seq);
    }
    return true;
  }
  bool no_such(std::uint64_t seq) {
    print_line("there is no record " + std::to_string(seq));
    return true;
  }
  bool state() {
    if (debugger_.frame().state.empty()) print_line(paint(Colour::dim, "nothing yet"));
    for (const auto& fact : debugger_.frame().state)
      print_line("  " + safe(fact.path) + " = " + safe(fact.value));
    return true;
  }

  const replay::Timeline& timeline_;
  debugger::Debugger& debugger_;
  bool json_;
};

base::Result<FileHistory> open(Session& session, const HistoryAdapters& adapters, const DebugArgs& args) {
  if (!args.file.empty()) return open_file(args.file);
  if (args.run_id.empty()) {
    return base::fail(Code::usage,
                      "name the run, or with --file an exported history; see `sandglass debug --help`");
  }
  const auto stream = find_stream(session, args.run_id);
  if (!stream) return std::unexpected(stream.error());
  auto history =
      open_history(session, adapters, stream->kind == engine::core::StreamKind::run ? "operator" : "auditor");
  if (!history) return std::unexpected(history.error());
  return FileHistory{.stream = *stream, .leaf = {}, .history = std::move(*history)};
}

}  // namespace

Outcome debug(Session& session, const HistoryAdapters& adapters, const DebugArgs& args) {
  auto opened = open(session, adapters, args);
  if (!opened) return std::unexpected(opened.error());
  const engine::core::StreamId* stream = &opened->stream;
  const History* history = &opened->history;
  auto timeline = replay::Timeline::read(history->reader(), *adapters.kinds, *stream);
  if (!timeline) return std::unexpected(not_here(session, *history, timeline.error()));
  debugger::Debugger stepped(*timeline);
  if (args.at > timeline->last()) {
    return std::unexpected(
        not_here(session, *history,
                 {Code::not_found, "the history ends with record " + std::to_string(timeline->last())}));
  }
  stepped.go_to(args.at);
  if (args.all) {
    while (stepped.next()) print_frame(*timeline, stepped.frame(), session.json());
  } else {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    print_frame(*timeline, stepped.frame(), session.json());
    if (terminal) print_line(kHelp);
    Prompt prompt(*timeline, stepped, session.json());
    std::string line;
    for (;;) {
      if (terminal) {
        std::fputs(
            ("(" + std::to_string(stepped.at()) + "/" + std::to_string(timeline->last()) + ") ").c_str(),
            stdout);
        std::fflush(stdout);
      }
      if (!std::getline(std::cin, line) || !prompt.obey(line)) break;
    }
  }
  if (timeline->fault()) return std::unexpected(*timeline->fault());
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
