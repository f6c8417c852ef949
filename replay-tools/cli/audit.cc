// audit verify, audit log.
#include "replay-tools/audit/audit.h"

#include <nlohmann/json.hpp>

#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;
using nlohmann::ordered_json;

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json report_json(const audit::Report& report) {
  ordered_json out = {{"good", report.good()}, {"records", report.records}, {"streams", report.streams}};
  out["heads"] = ordered_json::array();
  for (const auto& head : report.heads) {
    out["heads"].push_back(
        {{"partition", head.partition}, {"sequence", head.sequence}, {"chain", head.chain.hex()}});
  }
  out["findings"] = ordered_json::array();
  for (const auto& finding : report.findings) {
    out["findings"].push_back(
        {{"partition", finding.partition},
         {"sequence", finding.sequence},
         {"stream", finding.stream.kind == engine::core::StreamKind::none ? "" : finding.stream.text()},
         {"seq", finding.seq},
         {"what", finding.what}});
  }
  return out;
}

void print_report(const audit::Report& report) {
  for (const auto& finding : report.findings) {
    std::string place;
    if (finding.sequence != 0) {
      place = "partition " + std::to_string(finding.partition) + ", sequence " +
              std::to_string(finding.sequence) + ", ";
    }
    if (finding.stream.kind != engine::core::StreamKind::none) {
      place += finding.stream.text() + " record " + std::to_string(finding.seq) + ": ";
    }
    print_line(paint(Colour::red, "damaged ") + safe(place) + safe(finding.what));
  }
  for (const auto& head : report.heads) {
    print_line("partition " + std::to_string(head.partition) + ": " + std::to_string(head.sequence) +
               " records, head " + head.chain.hex());
  }
  const std::string sum =
      std::to_string(report.records) + " records of " + std::to_string(report.streams) + " streams";
  if (report.good()) {
    print_line(paint(Colour::green, "verified ") + sum + ": every hash and both chains hold");
  } else {
    print_line(paint(Colour::red, "NOT verified: ") + sum + ", " + std::to_string(report.findings.size()) +
               " findings");
  }
}

}  // namespace

Outcome audit_verify(Session& session, const HistoryAdapters& adapters, const AuditArgs& args) {
  auto history = open_history(session, adapters, "auditor");
  if (!history) return std::unexpected(history.error());
  base::Result<audit::Report> report = audit::Report();
  if (args.stream.empty()) {
    report = audit::verify((*history)->reader());
  } else {
    const auto stream = engine::core::StreamId::parse(args.stream);
    if (!stream) return base::fail(Code::usage, "a stream id has the form kind-<32 hex digits>");
    report = audit::verify_stream((*history)->reader(), *stream);
  }
  if (!report) return std::unexpected(report.error());
  if (session.json()) {
    print_line(dump(report_json(*report)));
  } else {
    print_report(*report);
  }
  return report->good() ? base::Exit::ok : base::Exit::folder;
}

Outcome audit_log(Session& session, const HistoryAdapters& adapters, const AuditArgs& args) {
  auto history = open_history(session, adapters, "auditor");
  if (!history) return std::unexpected(history.error());
  const auto partitions = (*history)->reader().partitions();
  if (!partitions) return std::unexpected(partitions.error());
  const auto print = [&](const audit::LogLine& line) {
    if (!args.stream.empty() && line.stream.text() != args.stream) return true;
    if (session.json()) {
      ordered_json out = {{"time_ms", line.time_ms},   {"partition", line.partition},
                          {"sequence", line.sequence}, {"stream", line.stream.text()},
                          {"seq", line.seq},           {"request_id", line.request_id},
                          {"leaf", line.leaf},         {"events", ordered_json::array()}};
      for (const auto& event : line.events) {
        auto fields = ordered_json::object();
        for (const auto& fact : event.fields) fields[fact.path] = fact.value;
        out["events"].push_back({{"name", event.name}, {"fields", fields}});
      }
      print_line(dump(out));
      return true;
    }
    std::string text =
        show_time(line.time_ms) + "  " + safe(line.stream.text()) + " #" + std::to_string(line.seq);
    for (const auto& event : line.events) text += "  " + safe(event.name);
    if (!line.request_id.empty()) text += "  request " + safe(line.request_id);
    print_line(text);
    return true;
  };
  for (std::uint16_t partition = 0; partition < *partitions; ++partition) {
    auto read = audit::read_log((*history)->reader(), *adapters.kinds, partition, 1, print);
    if (!read) return std::unexpected(read.error());
  }
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
