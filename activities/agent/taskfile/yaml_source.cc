// YAML and JSON texts → Document. Bounded in depth and number of values (aliases can make a short text huge).
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <set>

#include "activities/agent/taskfile/document.h"
#include "engine/base/text.h"

namespace sandglass::activities::agent::taskfile {

namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxValues = 20'000;
constexpr int kMaxDepth = 40;

struct Refused {
  YAML::Mark mark;
  std::string what;
};

std::string token(std::string_view name) {
  std::string out;
  for (const char c : name) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

class Converter {
 public:
  explicit Converter(Document& document) : document_(document) {}

  nlohmann::ordered_json convert(const YAML::Node& node, const std::string& pointer, int depth) {
    if (++values_ > kMaxValues) throw Refused{node.Mark(), "more than 20,000 values; make the file smaller"};
    if (depth > kMaxDepth) throw Refused{node.Mark(), "nested more than 40 levels deep"};
    if (!node.Mark().is_null()) document_.places[pointer] = {node.Mark().line + 1, node.Mark().column + 1};
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence: {
        auto list = nlohmann::ordered_json::array();
        std::size_t index = 0;
        for (const YAML::Node& item : node)
          list.push_back(convert(item, pointer + "/" + std::to_string(index++), depth + 1));
        return list;
      }
      case YAML::NodeType::Map:
        return mapping(node, pointer, depth);
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        break;
    }
    return nullptr;
  }

 private:
  nlohmann::ordered_json mapping(const YAML::Node& node, const std::string& pointer, int depth) {
    auto object = nlohmann::ordered_json::object();
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) throw Refused{entry.first.Mark(), "a field's name must be a text"};
      const std::string name = entry.first.Scalar();
      if (!base::is_utf8(name)) throw Refused{entry.first.Mark(), "a field's name that is not UTF-8"};
      if (!seen.insert(name).second) {
        throw Refused{entry.first.Mark(), "the field \"" + name + "\" stands here a second time; remove one"};
      }
      object[name] = convert(entry.second, pointer + "/" + token(name), depth + 1);
      // Faults about a field point at its name.
      document_.places[pointer + "/" + token(name)] = {entry.first.Mark().line + 1,
                                                       entry.first.Mark().column + 1};
    }
    return object;
  }

  static nlohmann::ordered_json scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (!base::is_utf8(text)) throw Refused{node.Mark(), "a text that is not UTF-8"};
    const std::string& tag = node.Tag();
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return text;
    if (!tag.empty() && tag != "?")
      throw Refused{node.Mark(), "the tag " + tag + " is not supported; remove it"};
    if (text == "null" || text == "~" || text.empty()) return nullptr;
    if (text == "true") return true;
    if (text == "false") return false;
    return number_or_text(text);
  }

  /// JSON's numbers are numbers; everything else (yes, 0x10, 1_000, .inf, 010) is a text.
  static nlohmann::ordered_json number_or_text(const std::string& text) {
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) return text;
    auto number = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!number.is_number() || (number.is_number_float() && !std::isfinite(number.get<double>())))
      return text;
    return number;
  }

  Document& document_;
  std::size_t values_ = 0;
};

std::unexpected<base::Error> fault(std::string_view file, const YAML::Mark& mark, std::string_view what) {
  std::string place(file);
  if (!mark.is_null()) place += ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
  return base::fail(base::Code::task_invalid, place + ": " + base::escape_for_terminal(what));
}

}  // namespace

base::Result<Document> read_yaml(std::string_view text, std::string_view file) {
  if (text.size() > kMaxBytes) {
    return fault(file, YAML::Mark::null_mark(),
                 "the task file is larger than 1 MiB; put contents into input files");
  }
  Document document{.file = std::string(file)};
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() != 1) {
      return fault(file, YAML::Mark::null_mark(), "the file must hold exactly one YAML document");
    }
    document.root = Converter(document).convert(documents[0], "", 0);
  } catch (const Refused& refused) {
    return fault(file, refused.mark, refused.what);
  } catch (const YAML::Exception& error) {
    return fault(file, error.mark,
                 "this is not valid YAML: " + error.msg + "; check indentation and quotes here");
  }
  return document;
}

base::Result<Document> read_json(std::string_view text) {
  Document document{.file = "input"};
  document.root = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.root.is_discarded()) {
    return base::fail(base::Code::task_invalid,
                      "input: not valid JSON; start the run with `sandglass run FILE`");
  }
  return document;
}

}  // namespace sandglass::activities::agent::taskfile
