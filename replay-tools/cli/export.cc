// history export.
#include <chrono>

#include "replay-tools/archive/archive.h"
#include "replay-tools/cli/history_commands.h"
#include "replay-tools/cli/output.h"

namespace sandglass::replay_tools::cli {

Outcome history_export(Session& session, const HistoryAdapters& adapters, const ExportArgs& args) {
  const auto stream = find_stream(session, args.run_id);
  if (!stream) return std::unexpected(stream.error());
  const bool is_run = stream->kind == engine::core::StreamKind::run;
  auto history = open_history(session, adapters, is_run ? "operator" : "auditor");
  if (!history) return std::unexpected(history.error());
  const std::string file = args.file.empty() ? stream->text() + ".history" : args.file;
  using namespace std::chrono;
  const std::int64_t now_ms = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  const auto exported = archive::write_history(history->reader(), *stream, now_ms, file);
  if (!exported) return std::unexpected(not_here(session, *history, exported.error()));
  if (session.json()) {
    print_line(to_json({{"file", file},
                        {"stream", stream->text()},
                        {"records", std::to_string(exported->records)},
                        {"leaf", exported->leaf.hex()}}));
    return base::Exit::ok;
  }
  print_line(paint(Colour::green, "exported ") + std::to_string(exported->records) + " records of " +
             safe(stream->text()) + " to " + safe(file) + ", " + show_bytes(exported->bytes) +
             "; the newest has the hash " + exported->leaf.hex());
  print_line("look at it with `sandglass debug --file " + safe(shell_word(file)) + "`");
  return base::Exit::ok;
}

}  // namespace sandglass::replay_tools::cli
