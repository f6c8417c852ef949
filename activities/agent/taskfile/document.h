// A document with the place of each of its values, and the reader of its fields that collects faults. Not for
// others.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace sandglass::activities::agent::taskfile {

namespace base = engine::base;

struct Place {
  int line = 0;  // from 1; 0: unknown
  int column = 0;
};

struct Document {
  std::string file;
  nlohmann::ordered_json root;
  std::map<std::string, Place> places;  // by JSON pointer
};

/// One node of the document and where it stands.
struct Node {
  const nlohmann::ordered_json* value = nullptr;
  std::string pointer;

  explicit operator bool() const { return value != nullptr; }
};

inline constexpr std::size_t kMaxFaults = 20;

class Faults {
 public:
  explicit Faults(const Document& document) : document_(document) {}

  void add(const Node& at, std::string_view what);
  bool empty() const { return lines_.empty(); }
  /// In the order of the file.
  std::unexpected<base::Error> error() const;

 private:
  struct Line {
    Place place;
    std::string text;
  };
  const Document& document_;
  std::vector<Line> lines_;  // sorted
};

/// The fields of one mapping. What was not asked for is an unknown field.
class Fields {
 public:
  Fields(Node node, std::string_view what, Faults& faults);
  /// Reports unknown fields.
  ~Fields();
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  bool has(std::string_view name) const;
  Node get(std::string_view name);
  Node require(std::string_view name);

  std::string text(std::string_view name, std::string fallback = {});
  std::string required_text(std::string_view name);
  bool flag(std::string_view name, bool fallback);
  std::int64_t number(std::string_view name, std::int64_t fallback, std::int64_t low, std::int64_t high);
  /// "90s", "5m", "24h", "250ms"; milliseconds.
  std::int64_t duration(std::string_view name, std::int64_t fallback);
  std::vector<Node> list(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  const Node& node() const { return node_; }
  std::vector<std::string> names() const;

 private:
  Node node_;
  std::string what_;
  Faults& faults_;
  std::vector<std::string> known_;
};

/// True and set if `node` is a string; else a fault.
bool take_text(const Node& node, std::string_view what, Faults& faults, std::string& out);
std::vector<Node> items_of(const Node& node, std::string_view what, Faults& faults);

base::Result<Document> read_yaml(std::string_view text, std::string_view file);
base::Result<Document> read_json(std::string_view text);

}  // namespace sandglass::activities::agent::taskfile
