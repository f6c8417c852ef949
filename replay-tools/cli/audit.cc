// audit verify, audit log, audit refusals.
#include "replay-tools/audit/audit.h"

#include <nlohmann/json.hpp>

#include "engine/refusals/refusals.h"
#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"
#include "replay-tools/replay/timeline.h"

namespace sandglass::replay_tools::cli {

namespace {

using base::Code;
using nlohmann::ordered_json;

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
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

ordered_json view_json(const TopicView& view) {
  ordered_json out = {
      {"topic", view.place.topic}, {"brokers", view.place.brokers}, {"journal", view.place.journal}};
  out["applied"] = ordered_json::array();
  for (const auto& each : view.applied) {
    out["applied"].push_back(
        {{"partition", each.partition}, {"sequence", each.sequence}, {"offset", each.offset}});
  }
  return out;
}

void print_findings(const audit::Report& report) {
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
}

void print_report(const audit::Report& report, const std::string& holds = "every hash and both chains hold") {
  print_findings(report);
  const std::string sum =
      std::to_string(report.records) + " records of " + std::to_string(report.streams) + " streams";
  if (report.good()) {
    print_line(paint(Colour::green, "verified ") + sum + ": " + holds);
  } else {
    print_line(paint(Colour::red, "NOT verified: ") + sum + ", " + std::to_string(report.findings.size()) +
               " findings");
  }
}

Outcome print_topic(Session& session, const audit::TopicReport& topic) {
  const audit::Report& report = topic.report;
  const base::Exit exit = report.good() ? base::Exit::ok : base::Exit::folder;
  if (session.json()) {
    ordered_json out = report_json(report);
    out["journal"] = topic.journal;
    out["again"] = topic.again;
    out["marks"] = topic.marks;
    out["ignored"] = topic.ignored;
    out["ignored_examples"] = topic.ignored_examples;
    out["skipped"] = topic.skipped;
    out["formers"] = topic.formers;
    out["unchecked"] = topic.unchecked;
    print_line(dump(out));
    return exit;
  }
  print_findings(report);
  for (const std::string& example : topic.ignored_examples) {
    print_line(paint(Colour::yellow, "ignored ") + safe(example));
  }
  for (const std::string& skipped : topic.skipped) {
    print_line(paint(Colour::yellow, "skipped ") + safe(skipped) +
               "; an owner says so in its epoch's record");
  }
  for (const std::string& former : topic.formers)
    print_line("moved from journal " + safe(former) + ": its chain is that of these records");
  for (const std::string& what : topic.unchecked)
    print_line(paint(Colour::yellow, "not checked ") + safe(what));
  const std::string sum = std::to_string(report.records) + " records of " + std::to_string(report.streams) +
                          " streams, journal " + safe(topic.journal.empty() ? "not known" : topic.journal) +
                          "; " + std::to_string(topic.again) + " came again, " +
                          std::to_string(topic.ignored) + " messages are not of it";
  if (report.good()) {
    print_line(paint(Colour::green, "verified ") + sum +
               ": complete, in order, every hash and both chains hold");
  } else {
    print_line(paint(Colour::red, "NOT verified: ") + sum + ", " + std::to_string(report.findings.size()) +
               " findings");
  }
  return exit;
}

Outcome verify_on_kafka(Session& session, const HistoryAdapters& adapters, const AuditArgs& args) {
  if (!args.stream.empty()) {
    return base::fail(Code::usage, "a topic is verified whole: name no stream beside --kafka");
  }
  auto source = adapters.open_topic(args.topic);
  if (!source) return std::unexpected(source.error());
  const auto report = audit::verify_topic(**source, args.topic.journal);
  if (!report) return std::unexpected(report.error());
  return print_topic(session, *report);
}

Outcome verify_file(Session& session, const AuditArgs& args) {
  if (!args.stream.empty())
    return base::fail(Code::usage, "the file says which stream it has: name none beside --file");
  const auto opened = open_file(args.file);
  if (!opened) return std::unexpected(opened.error());
  const auto report = audit::verify_stream(opened->history.reader(), opened->stream);
  if (!report) return std::unexpected(report.error());
  if (session.json()) {
    ordered_json out = report_json(*report);
    out["stream"] = opened->stream.text();
    out["leaf"] = opened->leaf.hex();
    print_line(dump(out));
  } else {
    print_report(*report, "every hash and the chain of " + opened->stream.text() +
                              " hold; whether its newest record, " + opened->leaf.hex() +
                              ", is the journal's, that journal says (`sandglass audit log`)");
  }
  return report->good() ? base::Exit::ok : base::Exit::folder;
}

}  // namespace

Outcome audit_verify(Session& session, const HistoryAdapters& adapters, const AuditArgs& args) {
  if (!args.topic.brokers.empty()) return verify_on_kafka(session, adapters, args);
  if (!args.file.empty()) return verify_file(session, args);
  auto history = open_history(session, adapters, "auditor");
  if (!history) return std::unexpected(history.error());
  base::Result<audit::Report> report = audit::Report();
  if (args.stream.empty()) {
    report = audit::verify(history->reader());
  } else {
    const auto stream = engine::core::StreamId::parse(args.stream);
    if (!stream) return base::fail(Code::usage, "a stream id has the form kind-<32 hex digits>");
    report = audit::verify_stream(history->reader(), *stream);
  }
  if (!report) return std::unexpected(not_here(session, *history, report.error()));
  if (session.json()) {
    ordered_json out = report_json(*report);
    if (history->view) out["view_of"] = view_json(*history->view);
    print_line(dump(out));
  } else {
    print_report(*report);
    if (history->view) print_line(paint(Colour::yellow, "note ") + safe(view_note(session, *history->view)));
  }
  return report->good() ? base::Exit::ok : base::Exit::folder;
}

Outcome audit_log(Session& session, const HistoryAdapters& adapters, const AuditArgs& args) {
  auto history = open_history(session, adapters, "auditor");
  if (!history) return std::unexpected(history.error());
  const auto partitions = history->reader().partitions();
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
    auto read = audit::read_log(history->reader(), *adapters.kinds, partition, 1, print);
    if (!read) return std::unexpected(read.error());
  }
  return base::Exit::ok;
}

Outcome audit_refusals(Session& session, const HistoryAdapters& adapters, const AuditArgs&) {
  namespace refusals = engine::refusals;
  auto history = open_history(session, adapters, "auditor");
  if (!history) return std::unexpected(history.error());
  const auto timeline =
      replay::Timeline::read(history->reader(), *adapters.kinds, refusals::refusals_stream());
  if (!timeline && timeline.error().code == Code::not_found) {  // its first record is yet to come
    if (!session.json()) print_line(paint(Colour::dim, "nobody was refused anything"));
    return base::Exit::ok;
  }
  if (!timeline) return std::unexpected(timeline.error());
  for (std::uint64_t seq = 1; seq <= timeline->last(); ++seq) {
    const auto& turn = timeline->turn(seq);
    using Events = engine::core::Events<refusals::RefusalsDecider::Event>;
    for (const auto& event : static_cast<const Events&>(*turn.events).items) {
      const auto& noted = std::get<refusals::RefusalNoted>(event);
      const auto slot = timeline->payload(noted.details);
      if (!slot) return std::unexpected(slot.error());
      auto details = ordered_json::parse(*slot ? (*slot)->bytes : "{}", nullptr, false);
      const auto text = [&](const char* name) {
        return details.is_object() && details.contains(name) && details[name].is_string()
                   ? details[name].get<std::string>()
                   : std::string();
      };
      if (session.json()) {
        print_line(dump({{"time_ms", turn.header.time_ms},
                         {"token", noted.token},
                         {"tenant", noted.tenant},
                         {"user", noted.user},
                         {"call", noted.call},
                         {"target", text("target")},
                         {"request_id", text("request_id")},
                         {"code", static_cast<std::uint32_t>(noted.code)},
                         {"message", text("message")},
                         {"dropped", noted.dropped}}));
        continue;
      }
      if (noted.dropped != 0) {
        print_line(paint(Colour::dim, "… " + std::to_string(noted.dropped) + " more were only counted"));
      }
      print_line(show_time(turn.header.time_ms) + "  " + safe(noted.tenant + "/" + noted.user) + " (" +
                 safe(noted.token) + ")  " + safe(noted.call) + " " + safe(text("target")) + "  request " +
                 safe(text("request_id")));
      print_line("    " + paint(Colour::red, "error " + std::to_string(static_cast<unsigned>(noted.code))) +
                 ": " + safe(text("message")));
    }
  }
  if (timeline->fault()) return std::unexpected(*timeline->fault());
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
