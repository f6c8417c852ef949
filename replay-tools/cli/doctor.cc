// serve and doctor.
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/data_folder.h"
#include "replay-tools/cli/commands.h"
#include "replay-tools/cli/launch.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

namespace {

void add(api::StatusReply& report, std::string name, std::string verdict, std::string detail) {
  auto& check = *report.add_checks();
  check.set_name(std::move(name));
  check.set_verdict(std::move(verdict));
  check.set_detail(std::move(detail));
}

/// What can be seen without an engine.
void check_folder(const std::string& path, api::StatusReply& report) {
  const auto folder = base::DataFolder::open_read_only(path);
  if (!folder) return add(report, "data folder", "missing", folder.error().message);
  struct statvfs disk{};
  std::string free;
  if (statvfs(path.c_str(), &disk) == 0) {
    free = ", " + show_bytes(static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize) + " free";
  }
  add(report, "data folder", access(path.c_str(), W_OK) == 0 ? "works" : "weaker", path + free);
}

std::string refused_text(const api::RefusedCalls& calls) {
  const std::pair<const char*, std::uint64_t> sorts[] = {{"unauthenticated", calls.unauthenticated()},
                                                         {"over a limit", calls.overloaded()},
                                                         {"malformed", calls.malformed()},
                                                         {"denied by role", calls.denied()},
                                                         {"refused", calls.refused()}};
  std::string text;
  for (const auto& [name, count] : sorts) text += std::to_string(count) + " " + name + ", ";
  return text + std::to_string(calls.recorded()) + " recorded (`sandglass audit refusals`), " +
         std::to_string(calls.dropped()) + " beyond their rate";
}

}  // namespace

Outcome serve(Session& session, const ServeArgs& args) {
  auto data = session.folder();
  if (!data) return std::unexpected(data.error());
  return std::unexpected(become_server({.data = *data, .config = args.config, .settings = args.settings}));
}

Outcome doctor(Session& session, const DoctorArgs& args) {
  auto data = session.folder();
  if (!data) return std::unexpected(data.error());
  if (args.clean) {
    if (auto ready = session.ensure_engine("", {}); !ready) return std::unexpected(ready.error());
  }
  api::StatusReply report;
  // The engine at an address has a folder of its own, which is not seen from here.
  const bool remote = !session.options().address.empty();
  auto client = session.open("operator");
  if (!remote) check_folder(*data, report);
  auto status =
      client ? (*client)->status(true) : base::Result<api::StatusReply>(std::unexpected(client.error()));
  if (status) {
    for (const auto& check : report.checks()) *status->add_checks() = check;
    add(*status, "engine", "works",
        "process " + std::to_string(status->pid()) + ", version " + status->version() + ", " +
            std::to_string(status->open_runs()) + " open runs");
    add(*status, "refused calls", "works", refused_text(status->refused()));
    report = std::move(*status);
  } else {
    add(report, "engine", "missing", status.error().message);
  }
  if (session.json()) {
    print_line(to_json(report));
  } else {
    std::vector<std::vector<std::string>> rows = {{"CHECK", "VERDICT", "DETAIL"}};
    for (const auto& check : report.checks()) rows.push_back({check.name(), check.verdict(), check.detail()});
    print_table(rows);
    std::string names;
    for (const auto& name : report.workflows()) names += (names.empty() ? "" : ", ") + safe(name);
    if (!names.empty()) print_line("workflows: " + names);
  }
  return status ? base::Exit::ok : base::exit_for(status.error().code);
}

}  // namespace sandglass::replay_tools::cli
