#include "tests/simulation/program.h"

#include <utility>

namespace sandglass::tests::simulation {
namespace {

std::vector<std::string> branches_of(const Op& op, std::size_t at) {
  std::vector<std::string> paths;
  for (std::int64_t i = 0; i < (op.kind == Op::Kind::parallel ? op.number : 1); ++i) {
    paths.push_back("op" + std::to_string(at) + "." + std::to_string(i));
  }
  return paths;
}

}  // namespace

Program random_program(support::SeededRandom& random, std::size_t streams) {
  Program program(3 + random.next() % 8);
  for (Op& op : program) {
    op.kind = static_cast<Op::Kind>(random.next() % 5);
    switch (op.kind) {
      case Op::Kind::parallel:
        op.number = 2 + static_cast<std::int64_t>(random.next() % 3);
        break;
      case Op::Kind::timer:
        op.number = static_cast<std::int64_t>(random.next() % 200);
        break;
      case Op::Kind::send:
        op.number = static_cast<std::int64_t>(random.next() % streams);
        break;
      default:
        op.number = static_cast<std::int64_t>(random.next() % 100);
        break;
    }
  }
  return program;
}

core::CommandPtr next_of(const Program& program, const TestState& state, std::int64_t now_ms,
                         const std::vector<core::StreamId>& streams) {
  const std::set<std::string> log(state.log.begin(), state.log.end());
  std::vector<TestCommand> output;
  bool goes_on = log.contains("2:start");
  for (std::size_t at = 0; at < program.size() && goes_on; ++at) {
    const Op& op = program[at];
    const std::string name = "op" + std::to_string(at);
    switch (op.kind) {
      case Op::Kind::step:
      case Op::Kind::parallel:
        for (const std::string& path : branches_of(op, at)) {
          if (!log.contains("3:" + path)) output.push_back(Act{path, "echo"});
          goes_on = goes_on && log.contains("4:" + path);
        }
        break;
      case Op::Kind::timer:
        if (!log.contains("5:" + name)) output.push_back(SetTimer{name, now_ms + op.number});
        goes_on = log.contains("7:" + name);
        break;
      case Op::Kind::send:
        if (!log.contains("1:sent " + name)) {
          output.push_back(Send{streams[static_cast<std::size_t>(op.number)], name});
        }
        break;
      case Op::Kind::add:
        if (!log.contains("1:" + name)) output.push_back(Add{name, op.number});
        break;
    }
  }
  if (goes_on && !log.contains("1:end")) output.push_back(Add{"end", 0});
  return output.empty() ? nullptr : test_output(std::move(output));
}

std::multiset<std::string> expected_log(const Program& program) {
  std::multiset<std::string> log{"2:start", "1:end"};
  for (std::size_t at = 0; at < program.size(); ++at) {
    const Op& op = program[at];
    const std::string name = "op" + std::to_string(at);
    switch (op.kind) {
      case Op::Kind::step:
      case Op::Kind::parallel:
        for (const std::string& path : branches_of(op, at)) {
          log.insert("3:" + path);
          log.insert("4:" + path);
        }
        break;
      case Op::Kind::timer:
        log.insert("5:" + name);
        log.insert("7:" + name);
        break;
      case Op::Kind::send:
        log.insert("1:sent " + name);
        break;
      case Op::Kind::add:
        log.insert("1:" + name);
        break;
    }
  }
  return log;
}

}  // namespace sandglass::tests::simulation
