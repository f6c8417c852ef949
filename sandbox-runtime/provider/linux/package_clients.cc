#include "sandbox-runtime/provider/linux/package_clients.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "sandbox-runtime/provider/launcher.h"
#include "sandbox-runtime/provider/linux/files.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

namespace {

constexpr std::size_t kMaxFile = 4u << 20;
constexpr std::size_t kMaxAddress = 512;
constexpr std::size_t kMaxSources = 64;
constexpr std::size_t kTokenLength = 20;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// A part of a path that may be an access token: long, letters and digits mixed.
bool looks_like_token(std::string_view part) {
  if (part.size() < kTokenLength) return false;
  const bool digits = std::ranges::any_of(part, is_digit);
  const bool letters =
      std::ranges::any_of(part, [](char c) { return is_letter_or_digit(c) && !is_digit(c); });
  return digits && letters;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = trim(text)).empty()) {
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

/// Lines "key = value" and "[section]" of an ini file: the last value of each wanted key.
void read_ini(const std::string& text, std::string_view wanted_section,
              const std::function<void(const std::string& key, const std::string& value)>& take) {
  std::istringstream lines(text);
  std::string section;
  for (std::string raw; std::getline(lines, raw);) {
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      section = line.substr(1, line.find(']') - 1);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || section != wanted_section) continue;
    take(std::string(trim(line.substr(0, equals))), std::string(trim(line.substr(equals + 1))));
  }
}

class Collector {
 public:
  explicit Collector(const MachineSource& machine) : machine_(machine) {
    home_ = machine.variable("HOME").value_or("");
    if (!home_.starts_with('/')) home_.clear();
  }

  PackageClients collect() && {
    npm();
    pip();
    apt();
    return std::move(made_);
  }

 private:
  std::string read(const std::string& path) const { return machine_.file(path).value_or(""); }
  std::string proxy() const { return "http://127.0.0.1:" + std::to_string(kProxyPort); }

  /// Keeps what may be shown; `what` names the place for the log.
  bool keep(const std::string& what, const std::string& value, std::string& out) {
    if (value.empty()) return false;
    if (!is_plain_registry(value)) {
      made_.left_out.push_back(what);
      return false;
    }
    out = value;
    return true;
  }

  void npm() {
    std::map<std::string, std::string> registries;
    const auto take = [&](const std::string& key, const std::string& value) {
      const bool scoped = key.starts_with('@') && key.ends_with(":registry") &&
                          std::all_of(key.begin() + 1, key.end() - 9, [](char c) {
                            return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
                          });
      if (key != "registry" && !scoped) return;
      std::string plain = value;
      if (plain.size() > 1 && plain.front() == '"' && plain.back() == '"')
        plain = plain.substr(1, plain.size() - 2);
      registries.erase(key);  // the stronger place counts, also when it cannot be shown
      if (std::string kept; keep("npm: " + key, plain, kept)) registries[key] = kept;
    };
    // The weakest first.
    for (const char* path : {"/usr/lib/node_modules/npm/npmrc", "/usr/share/nodejs/npm/npmrc", "/etc/npmrc",
                             "/usr/etc/npmrc", "/usr/local/etc/npmrc"}) {
      read_ini(read(path), "", take);
    }
    if (!home_.empty()) read_ini(read(home_ + "/.npmrc"), "", take);
    for (const char* name : {"NPM_CONFIG_REGISTRY", "npm_config_registry"}) {
      if (const auto value = machine_.variable(name)) take("registry", *value);
    }
    std::string text = "proxy=" + proxy() + "\nhttps-proxy=" + proxy() +
                       "\nnoproxy=\ncafile=/etc/ssl/certs/ca-certificates.crt\nupdate-notifier=false\n";
    for (const auto& [key, value] : registries) text.append(key).append("=").append(value).append("\n");
    made_.files["etc/npmrc"] = text;
  }

  void pip() {
    std::map<std::string, std::string> values;
    const auto take = [&](const std::string& key, const std::string& value) {
      if (key != "index-url" && key != "extra-index-url") return;
      std::string kept;
      std::string all;
      for (const std::string_view word : words_of(value)) {
        if (keep("pip: " + key, std::string(word), kept)) all += (all.empty() ? "" : " ") + kept;
      }
      values.erase(key);
      if (!all.empty()) values[key] = all;
    };
    std::vector<std::string> paths = {"/etc/xdg/pip/pip.conf", "/etc/pip.conf"};
    if (!home_.empty()) {
      paths.push_back(home_ + "/.pip/pip.conf");
      const std::string config = machine_.variable("XDG_CONFIG_HOME").value_or(home_ + "/.config");
      paths.push_back(config + "/pip/pip.conf");
    }
    if (const auto named = machine_.variable("PIP_CONFIG_FILE")) paths.push_back(*named);
    for (const std::string& path : paths) read_ini(read(path), "global", take);
    if (const auto value = machine_.variable("PIP_INDEX_URL")) take("index-url", *value);
    if (const auto value = machine_.variable("PIP_EXTRA_INDEX_URL")) take("extra-index-url", *value);
    std::string text = "[global]\nproxy = " + proxy() + "\ncert = /etc/ssl/certs/ca-certificates.crt\n";
    for (const auto& [key, value] : values) text.append(key).append(" = ").append(value).append("\n");
    made_.files["etc/pip.conf"] = text;
  }

  void apt() {
    made_.files["etc/apt/apt.conf"] = "Acquire::http::Proxy \"" + proxy() + "\";\nAcquire::https::Proxy \"" +
                                      proxy() +
                                      "\";\nAcquire::https::CAInfo \"/etc/ssl/certs/ca-certificates.crt\";\n";
    one_line_sources(read("/etc/apt/sources.list"));
    for (const std::string& name : machine_.names("/etc/apt/sources.list.d")) {
      const std::string text = read("/etc/apt/sources.list.d/" + name);
      if (name.ends_with(".list")) one_line_sources(text);
      if (name.ends_with(".sources")) stanzas(text);
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(sources_.size(), kMaxSources); ++i) text += sources_[i] + "\n";
    made_.files["etc/apt/sources.list"] = text;
  }

  /// One source; only a key that lies below /usr is there inside.
  void source(std::string_view type, const std::string& uri, std::string_view key, std::string_view rest) {
    const bool plain_key = key.empty() || (key.starts_with("/usr/share/keyrings/") &&
                                           key.find_first_of("[]") == std::string_view::npos);
    const bool plain_rest = !rest.empty() && std::ranges::all_of(rest, [](char c) {
      return is_letter_or_digit(c) || std::string_view(" -_./").find(c) != std::string_view::npos;
    });
    if ((type != "deb" && type != "deb-src") || !plain_key || !plain_rest) return;
    std::string kept;
    if (!keep("apt: source", uri, kept)) return;
    std::string line(type);
    if (!key.empty()) line.append(" [signed-by=").append(key).append("]");
    line.append(" ").append(kept).append(" ").append(rest);
    sources_.push_back(std::move(line));
  }

  void one_line_sources(const std::string& text) {
    std::istringstream lines(text);
    for (std::string raw; std::getline(lines, raw);) {
      std::string_view line = trim(std::string_view(raw).substr(0, raw.find('#')));
      const std::size_t end = line.find_first_of(" \t");
      if (end == std::string_view::npos) continue;
      const std::string_view type = line.substr(0, end);
      line = trim(line.substr(end));
      std::string_view key;
      if (line.starts_with('[')) {
        const std::size_t close = line.find(']');
        if (close == std::string_view::npos) continue;
        for (const std::string_view option : words_of(line.substr(1, close - 1))) {
          if (option.starts_with("signed-by=")) key = option.substr(10);
        }
        line = trim(line.substr(close + 1));
      }
      const std::size_t space = line.find_first_of(" \t");
      if (space == std::string_view::npos) continue;
      source(type, std::string(line.substr(0, space)), key, trim(line.substr(space)));
    }
  }

  void stanzas(const std::string& text) {
    std::map<std::string, std::string> fields;
    std::istringstream lines(text + "\n\n");
    for (std::string raw; std::getline(lines, raw);) {
      const std::string_view line = trim(raw);
      if (line.starts_with('#')) continue;
      if (line.empty()) {
        stanza(fields);
        fields.clear();
        continue;
      }
      const std::size_t colon = line.find(':');
      if (raw.front() == ' ' || raw.front() == '\t' || colon == std::string_view::npos) continue;
      fields[std::string(line.substr(0, colon))] = trim(line.substr(colon + 1));
    }
  }

  void stanza(std::map<std::string, std::string>& fields) {
    if (fields["Enabled"] == "no") return;
    for (const std::string_view type : words_of(fields["Types"])) {
      for (const std::string_view uri : words_of(fields["URIs"])) {
        for (const std::string_view suite : words_of(fields["Suites"])) {
          source(type, std::string(uri), fields["Signed-By"],
                 std::string(suite) + " " + fields["Components"]);
        }
      }
    }
  }

  const MachineSource& machine_;
  std::string home_;
  std::vector<std::string> sources_;
  PackageClients made_;
};

}  // namespace

bool is_plain_registry(std::string_view address) {
  if (address.size() > kMaxAddress) return false;
  std::string_view rest = address;
  if (rest.starts_with("https://"))
    rest.remove_prefix(8);
  else if (rest.starts_with("http://"))
    rest.remove_prefix(7);
  else
    return false;
  const std::string_view host = rest.substr(0, std::min(rest.find('/'), rest.size()));
  if (host.empty() || !is_letter_or_digit(host.front())) return false;
  const bool plain = std::ranges::all_of(rest, [](char c) {
    return is_letter_or_digit(c) || std::string_view("-._~/:+").find(c) != std::string_view::npos;
  });
  if (!plain) return false;  // '@', '?', '#', '$', '%', quotes, blanks, controls
  std::string_view path = rest.substr(host.size());
  if (path.find(':') != std::string_view::npos) return false;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    if (looks_like_token(path.substr(0, end))) return false;
    path.remove_prefix(end);
  }
  return true;
}

std::string certificates_of(std::string_view bundle) {
  constexpr std::string_view begin = "-----BEGIN CERTIFICATE-----";
  constexpr std::string_view finish = "-----END CERTIFICATE-----";
  std::string out;
  std::string block;
  std::set<std::string> seen;
  bool inside = false;
  std::istringstream lines{std::string(bundle)};
  for (std::string raw; std::getline(lines, raw);) {
    const std::string_view line = trim(raw);
    if (line == begin) {
      inside = true;  // also in the middle of a block that never ended, which is dropped
      block.clear();
      continue;
    }
    if (!inside) continue;
    if (line == finish) {
      inside = false;
      if (!block.empty() && seen.insert(block).second)
        out.append(begin).append("\n").append(block).append(finish).append("\n");
      continue;
    }
    inside = !line.empty() && std::ranges::all_of(line, [](char c) {
      return is_letter_or_digit(c) || c == '+' || c == '/' || c == '=';
    });
    block.append(line).append("\n");
  }
  return out;
}

MachineSource this_machine() {
  return {.variable = [](const std::string& name) -> std::optional<std::string> {
            const char* value = std::getenv(name.c_str());
            return value == nullptr ? std::nullopt : std::optional<std::string>(value);
          },
          .file = [](const std::string& path) { return read_file(path, kMaxFile); },
          .names =
              [](const std::string& path) {
                std::vector<std::string> names;
                std::error_code error;
                for (auto at = std::filesystem::directory_iterator(path, error);
                     !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
                  names.push_back(at->path().filename());
                }
                std::ranges::sort(names);
                return names;
              }};
}

PackageClients package_clients(const MachineSource& machine) {
  return Collector(machine).collect();
}

std::string operator_certificates(const MachineSource& machine) {
  constexpr auto variables =
      std::to_array<const char*>({"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
                                  "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"});
  std::string all = machine.file("/etc/ssl/certs/ca-certificates.crt").value_or("") + "\n";
  std::set<std::string> read = {"/etc/ssl/certs/ca-certificates.crt"};
  for (const char* name : variables) {
    const auto path = machine.variable(name);
    if (!path || !path->starts_with('/') || !read.insert(*path).second) continue;
    all += machine.file(*path).value_or("") + "\n";
  }
  return certificates_of(all);
}

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
