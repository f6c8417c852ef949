// YAML and JSON texts → Document. What stands in YAML is measured first (engine/yaml/bounds.h).
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <set>

#include "activities/agent/taskfile/document.h"
#include "engine/base/text.h"
#include "engine/codec/json.h"
#include "engine/yaml/bounds.h"

namespace sandglass::activities::agent::taskfile {

namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxJsonBytes = 8 * kMaxBytes;  // JSON writes some characters as six
/// Of all places' pointers: below a long name every value has it in its own.
constexpr std::size_t kMaxPointers = 8 << 20;

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

  nlohmann::ordered_json convert(const YAML::Node& node, const std::string& pointer) {
    place(pointer, node.Mark());
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return scalar(node);
      case YAML::NodeType::Sequence: {
        auto list = nlohmann::ordered_json::array();
        std::size_t index = 0;
        for (const YAML::Node& item : node)
          list.push_back(convert(item, pointer + "/" + std::to_string(index++)));
        return list;
      }
      case YAML::NodeType::Map:
        return mapping(node, pointer);
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        break;
    }
    return nullptr;
  }

 private:
  void place(const std::string& pointer, const YAML::Mark& mark) {
    if (mark.is_null()) return;
    if (pointer.size() > pointers_left_) {
      throw Refused{mark,
                    "the names of the fields around this are too long; with those before they take more "
                    "than 8 MiB"};
    }
    pointers_left_ -= pointer.size();
    document_.places[pointer] = {mark.line + 1, mark.column + 1};
  }

  nlohmann::ordered_json mapping(const YAML::Node& node, const std::string& pointer) {
    auto object = nlohmann::ordered_json::object();
    auto& fields = object.get_ref<nlohmann::ordered_json::object_t&>();
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) throw Refused{entry.first.Mark(), "a field's name must be a text"};
      const std::string name = entry.first.Scalar();
      if (!base::is_utf8(name)) throw Refused{entry.first.Mark(), "a field's name that is not UTF-8"};
      if (!seen.insert(name).second) {
        throw Refused{entry.first.Mark(), "the field \"" + name + "\" stands here a second time; remove one"};
      }
      const std::string below = pointer + "/" + token(name);
      fields.emplace_back(name, convert(entry.second, below));
      place(below, entry.first.Mark());  // faults about a field point at its name
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
  std::size_t pointers_left_ = kMaxPointers;
};

std::unexpected<base::Error> fault(std::string_view file, const Place& at, std::string_view what) {
  std::string place(file);
  if (at.line != 0) place += ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
  return base::fail(base::Code::task_invalid, place + ": " + base::escape_for_terminal(what));
}

Place place_of(const YAML::Mark& mark) {
  return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
}

}  // namespace

base::Result<Document> read_yaml(std::string_view text, std::string_view file) {
  if (text.size() > kMaxBytes) {
    return fault(file, {}, "the task file is larger than 1 MiB; put contents into input files");
  }
  if (const auto found = engine::yaml::find_fault(text)) {
    return fault(file, {found->line, found->column}, found->what);
  }
  Document document{.file = std::string(file), .root = {}, .places = {}};
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty()) return fault(file, {}, "the file must hold exactly one YAML document");
    document.root = Converter(document).convert(documents[0], "");
  } catch (const Refused& refused) {
    return fault(file, place_of(refused.mark), refused.what);
  } catch (const YAML::Exception& error) {
    return fault(file, place_of(error.mark), "this YAML cannot be read: " + error.msg);
  }
  return document;
}

base::Result<Document> read_json(std::string_view text) {
  // Whoever walks the document goes as deep as it is.
  if (auto checked = engine::codec::check_json(text, {.max_bytes = kMaxJsonBytes}); !checked) {
    return base::fail(base::Code::task_invalid,
                      "input: " + checked.error().message + "; start the run with `sandglass run FILE`");
  }
  return Document{.file = "input", .root = nlohmann::ordered_json::parse(text), .places = {}};
}

}  // namespace sandglass::activities::agent::taskfile
