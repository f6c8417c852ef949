#include "sandbox-runtime/manager/unified_diff.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sandglass::sandbox_runtime::manager {

namespace {

constexpr std::size_t kContext = 3;
/// Beyond so many changed lines the middle is replaced as a whole: memory of the search grows with the
/// square.
constexpr int kMaxEdits = 1500;
/// And so do many lines that are equal: the search may follow them on every one of its ways.
constexpr std::uint64_t kMaxSteps = 20'000'000;
/// A file of more lines is replaced as a whole without a search: a line that is one byte takes fifty to
/// compare.
constexpr std::size_t kMaxLines = 200'000;

using Lines = std::vector<std::string_view>;  // with their newline; only the last may lack it

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

struct Edit {
  char kind = ' ';  // ' ', '-', '+'
  std::string_view line;
};

/// The greedy shortest edit script (Myers 1986): trace of the furthest points per number of edits, walked
/// backwards.
std::optional<std::vector<Edit>> shortest_script(const Lines& a, const Lines& b) {
  const int n = static_cast<int>(a.size());
  const int m = static_cast<int>(b.size());
  const int most = std::min(n + m, kMaxEdits);
  std::vector<int> furthest(static_cast<std::size_t>(2 * most + 2), 0);
  std::vector<std::vector<int>> trace;
  const auto at = [&](std::vector<int>& v, int k) -> int& { return v[static_cast<std::size_t>(k + most)]; };
  int edits = -1;
  std::uint64_t steps = 0;
  for (int d = 0; d <= most && edits < 0 && steps < kMaxSteps; ++d) {
    trace.push_back(furthest);
    for (int k = -d; k <= d; k += 2) {
      const bool down = k == -d || (k != d && at(furthest, k - 1) < at(furthest, k + 1));
      int x = down ? at(furthest, k + 1) : at(furthest, k - 1) + 1;
      int y = x - k;
      while (x < n && y < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(y)]) {
        ++x;
        ++y;
        ++steps;
      }
      at(furthest, k) = x;
      if (x >= n && y >= m) edits = d;
    }
  }
  if (edits < 0) return std::nullopt;
  std::vector<Edit> script;
  int x = n;
  int y = m;
  for (int d = edits; d > 0; --d) {
    std::vector<int>& before = trace[static_cast<std::size_t>(d)];
    const int k = x - y;
    const bool down = k == -d || (k != d && at(before, k - 1) < at(before, k + 1));
    const int start_x = down ? at(before, k + 1) : at(before, k - 1);
    const int start_y = start_x - (down ? k + 1 : k - 1);
    while (x > start_x + (down ? 0 : 1) && y > start_y + (down ? 1 : 0)) {
      script.push_back({' ', a[static_cast<std::size_t>(--x)]});
      --y;
    }
    if (down) {
      script.push_back({'+', b[static_cast<std::size_t>(--y)]});
    } else {
      script.push_back({'-', a[static_cast<std::size_t>(--x)]});
    }
  }
  while (x > 0) script.push_back({' ', a[static_cast<std::size_t>(--x)]});
  std::ranges::reverse(script);
  return script;
}

std::vector<Edit> edits_between(const Lines& a, const Lines& b) {
  std::size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  std::size_t tail = 0;
  while (tail < a.size() - head && tail < b.size() - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  const Lines middle_a(a.begin() + static_cast<std::ptrdiff_t>(head),
                       a.end() - static_cast<std::ptrdiff_t>(tail));
  const Lines middle_b(b.begin() + static_cast<std::ptrdiff_t>(head),
                       b.end() - static_cast<std::ptrdiff_t>(tail));
  std::vector<Edit> edits;
  for (std::size_t i = 0; i < head; ++i) edits.push_back({' ', a[i]});
  if (auto script = shortest_script(middle_a, middle_b)) {
    edits.insert(edits.end(), script->begin(), script->end());
  } else {
    for (const std::string_view line : middle_a) edits.push_back({'-', line});
    for (const std::string_view line : middle_b) edits.push_back({'+', line});
  }
  for (std::size_t i = a.size() - tail; i < a.size(); ++i) edits.push_back({' ', a[i]});
  return edits;
}

std::string range_text(std::size_t first, std::size_t count) {
  // An empty range is named by the line before it.
  const std::size_t line = count == 0 ? first : first + 1;
  return count == 1 ? std::to_string(line) : std::to_string(line) + "," + std::to_string(count);
}

void append_hunk(std::string& out, const std::vector<Edit>& edits, std::size_t from, std::size_t to,
                 std::size_t old_line, std::size_t new_line) {
  std::size_t old_count = 0;
  std::size_t new_count = 0;
  for (std::size_t i = from; i < to; ++i) {
    old_count += edits[i].kind != '+' ? 1 : 0;
    new_count += edits[i].kind != '-' ? 1 : 0;
  }
  out += "@@ -" + range_text(old_line, old_count) + " +" + range_text(new_line, new_count) + " @@\n";
  for (std::size_t i = from; i < to; ++i) {
    out += edits[i].kind;
    out += edits[i].line;
    if (!edits[i].line.ends_with('\n')) out += "\n\\ No newline at end of file\n";
  }
}

std::size_t count_lines(std::string_view text) {
  const auto ends = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  return ends + (text.empty() || text.ends_with('\n') ? 0 : 1);
}

void append_lines(std::string& out, char kind, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    out += kind;
    out += text.substr(0, end + 1);
    text.remove_prefix(end + 1);
  }
  if (!out.ends_with('\n')) out += "\n\\ No newline at end of file\n";
}

/// Both texts without the lines at their ends that are equal, but for some context.
struct Middle {
  std::size_t first = 0;        // lines left out before it
  std::string_view head, tail;  // the context, the same on both sides
  std::string_view before, after;
};

/// Where the line begins that is `lines` before the one that begins at `at`.
std::size_t lines_back(std::string_view text, std::size_t at, std::size_t lines) {
  for (; at > 0 && lines > 0; --lines) {
    const std::size_t end = at < 2 ? std::string_view::npos : text.rfind('\n', at - 2);
    at = end == std::string_view::npos ? 0 : end + 1;
  }
  return at;
}

std::size_t lines_on(std::string_view text, std::size_t at, std::size_t lines) {
  for (; at < text.size() && lines > 0; --lines) at = std::min(text.find('\n', at), text.size() - 1) + 1;
  return at;
}

Middle middle_of(std::string_view before, std::string_view after) {
  const std::size_t least = std::min(before.size(), after.size());
  const auto differ = std::ranges::mismatch(before, after);
  auto head = static_cast<std::size_t>(differ.in1 - before.begin());
  while (head > 0 && before[head - 1] != '\n') --head;
  std::size_t tail = 0;
  while (tail < least - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) ++tail;
  const auto begins_line = [&](std::string_view text) {
    return text.size() - tail == head || text[text.size() - tail - 1] == '\n';
  };
  if (!begins_line(before) || !begins_line(after)) {
    const std::size_t end = before.find('\n', before.size() - tail);
    tail = end == std::string_view::npos ? 0 : before.size() - end - 1;
  }
  const std::size_t start = lines_back(before, head, kContext);
  const std::string_view rest = before.substr(before.size() - tail);
  return {count_lines(before.substr(0, start)), before.substr(start, head - start),
          rest.substr(0, lines_on(rest, 0, kContext)), before.substr(head, before.size() - tail - head),
          after.substr(head, after.size() - tail - head)};
}

std::string one_hunk(const Middle& middle) {
  const std::size_t context = count_lines(middle.head) + count_lines(middle.tail);
  std::string out = "@@ -" + range_text(middle.first, context + count_lines(middle.before)) + " +" +
                    range_text(middle.first, context + count_lines(middle.after)) + " @@\n";
  append_lines(out, ' ', middle.head);
  append_lines(out, '-', middle.before);
  append_lines(out, '+', middle.after);
  append_lines(out, ' ', middle.tail);
  return out;
}

std::string hunks(std::string_view before_all, std::string_view after_all) {
  const Middle middle = middle_of(before_all, after_all);
  if (count_lines(middle.before) + count_lines(middle.after) > kMaxLines) return one_hunk(middle);
  const auto with_context = [&](std::string_view changed) {
    return std::string_view(changed.data() - middle.head.size(),
                            middle.head.size() + changed.size() + middle.tail.size());
  };
  const std::string_view before = with_context(middle.before);
  const std::string_view after = with_context(middle.after);
  const std::vector<Edit> edits = edits_between(lines_of(before), lines_of(after));
  std::string out;
  std::size_t old_line = middle.first;  // lines of each side before edits[i]
  std::size_t new_line = middle.first;
  std::size_t i = 0;
  const auto step = [&](std::size_t to) {
    for (; i < to; ++i) {
      old_line += edits[i].kind != '+' ? 1 : 0;
      new_line += edits[i].kind != '-' ? 1 : 0;
    }
  };
  while (i < edits.size()) {
    std::size_t change = i;
    while (change < edits.size() && edits[change].kind == ' ') ++change;
    if (change == edits.size()) break;
    step(std::max(i, change - std::min(change, kContext)));
    // The hunk goes on while the next change is near enough to share context.
    std::size_t last = change;
    for (std::size_t j = change; j < edits.size() && j <= last + 2 * kContext + 1; ++j) {
      if (edits[j].kind != ' ') last = j;
    }
    const std::size_t end = std::min(edits.size(), last + 1 + kContext);
    append_hunk(out, edits, i, end, old_line, new_line);
    step(end);
  }
  return out;
}

/// A path as git writes it: in quotes with octal escapes where it has anything but printable ASCII.
std::string quoted(const std::string& path) {
  const bool plain =
      std::ranges::all_of(path, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) return path;
  std::string out = "\"";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte > 0x7e) {
      out += '\\';
      for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + ((byte >> shift) & 7));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string mode_of(const FileVersion& version) {
  return version.symlink ? "120000" : version.executable ? "100755" : "100644";
}

/// A name in a "---" or "+++" line ends with a tab where a space could be read as its end.
std::string name_line(const std::string& name) {
  return name + (name.find(' ') == std::string::npos ? "\n" : "\t\n");
}

}  // namespace

bool is_binary(std::string_view content) {
  return content.substr(0, 8000).find('\0') != std::string_view::npos;
}

std::string unified_diff(const std::string& path, const std::optional<FileVersion>& before,
                         const std::optional<FileVersion>& after) {
  if (before == after) return {};
  if (before && after && before->symlink != after->symlink) {  // another type: one goes, the other comes
    return unified_diff(path, before, std::nullopt) + unified_diff(path, std::nullopt, after);
  }
  const std::string a = quoted("a/" + path);
  const std::string b = quoted("b/" + path);
  std::string out = "diff --git " + a + " " + b + "\n";
  if (!before) {
    out += "new file mode " + mode_of(*after) + "\n";
  } else if (!after) {
    out += "deleted file mode " + mode_of(*before) + "\n";
  } else if (before->executable != after->executable) {
    out += "old mode " + mode_of(*before) + "\nnew mode " + mode_of(*after) + "\n";
  }
  const std::string old_text = before ? before->content : std::string();
  const std::string new_text = after ? after->content : std::string();
  if (old_text == new_text) return out;
  out += "--- " + (before ? name_line(a) : "/dev/null\n");
  out += "+++ " + (after ? name_line(b) : "/dev/null\n");
  return out + hunks(old_text, new_text);
}

}  // namespace sandglass::sandbox_runtime::manager
