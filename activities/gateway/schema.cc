#include "activities/gateway/schema.h"

#include <algorithm>
#include <set>

#include "activities/gateway/schema_impl.h"
#include "engine/codec/json.h"

namespace sandglass::activities::gateway {

namespace {

constexpr std::string_view kRefused[] = {"unevaluatedProperties", "unevaluatedItems", "$dynamicRef",
                                         "$recursiveRef",         "dependentSchemas", "dependencies",
                                         "minContains",           "maxContains"};
constexpr std::string_view kInPlaceLists[] = {"allOf", "anyOf", "oneOf"};
constexpr std::string_view kInPlace[] = {"not", "if", "then", "else"};
constexpr std::string_view kInner[] = {"additionalProperties", "propertyNames", "additionalItems",
                                       "contains"};
constexpr std::string_view kInnerMaps[] = {"properties", "patternProperties", "$defs", "definitions"};
constexpr std::string_view kCounts[] = {"minLength", "maxLength",     "minItems",
                                        "maxItems",  "minProperties", "maxProperties"};
constexpr std::string_view kNumbers[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                         "multipleOf"};
constexpr std::string_view kTypes[] = {"integer", "number", "string", "boolean", "null", "array", "object"};

/// Walks every schema of the document, checks its keywords and gathers patterns, anchors and references.
class Compiler {
 public:
  Compiler(std::map<std::string, std::unique_ptr<RE2>, std::less<>>& patterns,
           std::map<const Json*, const Json*>& refs)
      : patterns_(patterns), refs_(refs) {}

  std::string compile(const Json& root) {
    root_ = &root;
    walk(root, "#");
    for (const auto& [from, target] : wanted_) {
      if (fault_.empty()) resolve(*from, target);
    }
    for (const Json* one : schemas_) {
      if (fault_.empty()) find_cycle(*one);
    }
    return fault_;
  }

 private:
  void fail(const std::string& place, const std::string& what) {
    if (fault_.empty()) fault_ = place + ": " + what;
  }

  void walk(const Json& schema, const std::string& place) {
    if (!fault_.empty()) return;
    if (schema.is_boolean()) return;
    if (!schema.is_object()) return fail(place, "a schema is an object, true or false");
    schemas_.push_back(&schema);
    known_.insert(&schema);
    for (const std::string_view name : kRefused) {
      if (schema.contains(std::string(name)))
        return fail(place, "the keyword \"" + std::string(name) + "\" is not supported");
    }
    references(schema, place);
    plain_keywords(schema, place);
    for (const std::string_view name : kInPlaceLists) list_of_schemas(schema, name, place);
    list_of_schemas(schema, "prefixItems", place);
    for (const std::string_view name : kInPlace) one_schema(schema, name, place);
    for (const std::string_view name : kInner) one_schema(schema, name, place);
    if (schema.contains("items") && schema["items"].is_array()) {
      list_of_schemas(schema, "items", place);
    } else {
      one_schema(schema, "items", place);
    }
    for (const std::string_view name : kInnerMaps) map_of_schemas(schema, name, place);
  }

  void references(const Json& schema, const std::string& place) {
    if (const auto anchor = schema.find("$anchor"); anchor != schema.end()) {
      if (!anchor->is_string()) return fail(place, "\"$anchor\" must be a text");
      anchors_[anchor->get<std::string>()] = &schema;
    }
    if (const auto id = schema.find("$id"); id != schema.end() && &schema != root_) {
      return fail(place, "a nested \"$id\" is not supported");
    }
    if (const auto ref = schema.find("$ref"); ref != schema.end()) {
      if (!ref->is_string() || !ref->get_ref<const std::string&>().starts_with("#")) {
        return fail(place, "\"$ref\" must name something in this document (\"#…\"); nothing is fetched");
      }
      wanted_.emplace_back(&schema, ref->get<std::string>());
    }
  }

  void plain_keywords(const Json& schema, const std::string& place) {
    for (const std::string_view name : kCounts) {
      const auto found = schema.find(std::string(name));
      if (found != schema.end() && !found->is_number_unsigned())
        fail(place, "\"" + std::string(name) + "\" must be a whole number from 0");
    }
    for (const std::string_view name : kNumbers) {
      const auto found = schema.find(std::string(name));
      if (found != schema.end() && !found->is_number())
        fail(place, "\"" + std::string(name) + "\" must be a number");
    }
    if (const auto step = schema.find("multipleOf");
        step != schema.end() && step->is_number() && step->get<double>() <= 0) {
      fail(place, "\"multipleOf\" must be above 0");
    }
    if (const auto unique = schema.find("uniqueItems"); unique != schema.end() && !unique->is_boolean()) {
      fail(place, "\"uniqueItems\" must be true or false");
    }
    if (const auto choices = schema.find("enum"); choices != schema.end() && !choices->is_array()) {
      fail(place, "\"enum\" must be a list");
    }
    if (const auto pattern = schema.find("pattern"); pattern != schema.end()) {
      if (!pattern->is_string()) return fail(place, "\"pattern\" must be a text");
      add_pattern(pattern->get<std::string>(), place);
    }
    types(schema, place);
    if (const auto names = schema.find("required"); names != schema.end()) texts(*names, "required", place);
    if (const auto all = schema.find("dependentRequired"); all != schema.end()) {
      if (!all->is_object()) return fail(place, "\"dependentRequired\" must be an object");
      for (const auto& [name, others] : all->items()) texts(others, "dependentRequired", place);
    }
  }

  void types(const Json& schema, const std::string& place) {
    const auto type = schema.find("type");
    if (type == schema.end()) return;
    const auto known = [](const Json& one) {
      return one.is_string() &&
             std::ranges::find(kTypes, one.get_ref<const std::string&>()) != std::end(kTypes);
    };
    const bool ok = type->is_array() ? !type->empty() && std::ranges::all_of(*type, known) : known(*type);
    if (!ok) fail(place, "\"type\" " + type->dump() + " is not known");
  }

  void texts(const Json& value, const char* name, const std::string& place) {
    const bool ok =
        value.is_array() && std::ranges::all_of(value, [](const Json& one) { return one.is_string(); });
    if (!ok) fail(place, "\"" + std::string(name) + "\" must be a list of texts");
  }

  void add_pattern(const std::string& pattern, const std::string& place) {
    if (patterns_.contains(pattern)) return;
    RE2::Options options;
    options.set_max_mem(1 << 20);
    options.set_log_errors(false);
    auto compiled = std::make_unique<RE2>(pattern, options);
    if (!compiled->ok())
      return fail(place, "the pattern " + Json(pattern).dump() + " is not supported: " + compiled->error());
    patterns_.emplace(pattern, std::move(compiled));
  }

  void one_schema(const Json& schema, std::string_view name, const std::string& place) {
    const auto found = schema.find(std::string(name));
    if (found != schema.end()) walk(*found, place + "/" + std::string(name));
  }

  void list_of_schemas(const Json& schema, std::string_view name, const std::string& place) {
    const auto found = schema.find(std::string(name));
    if (found == schema.end()) return;
    if (!found->is_array() || found->empty())
      return fail(place, "\"" + std::string(name) + "\" must be a list of schemas");
    for (const Json& one : *found) walk(one, place + "/" + std::string(name));
  }

  void map_of_schemas(const Json& schema, std::string_view name, const std::string& place) {
    const auto found = schema.find(std::string(name));
    if (found == schema.end()) return;
    if (!found->is_object()) return fail(place, "\"" + std::string(name) + "\" must be an object of schemas");
    for (const auto& [key, one] : found->items()) {
      if (name == "patternProperties") add_pattern(key, place);
      walk(one, place + "/" + std::string(name) + "/" + key);
    }
  }

  void resolve(const Json& from, const std::string& target) {
    const Json* found = nullptr;
    if (target == "#") {
      found = root_;
    } else if (target.starts_with("#/")) {
      try {
        const Json::json_pointer pointer(target.substr(1));
        if (root_->contains(pointer)) found = &root_->at(pointer);
      } catch (const Json::exception&) {
        found = nullptr;  // not a pointer: reported as dangling
      }
    } else if (const auto anchor = anchors_.find(target.substr(1)); anchor != anchors_.end()) {
      found = anchor->second;
    }
    const bool schema = found != nullptr && (found->is_boolean() || known_.contains(found));
    if (!schema) return fail("#", "\"$ref\": " + Json(target).dump() + " names no schema of this document");
    refs_[&from] = found;
  }

  /// A schema that leads back to itself without going into the value would never end (FR-125).
  void find_cycle(const Json& schema) {
    if (!schema.is_object() || done_.contains(&schema) || !fault_.empty()) return;
    if (!open_.insert(&schema).second)
      return fail("#", "a schema refers to itself without looking further into the value");
    if (open_.size() > 1000) return fail("#", "references are nested too deeply");
    if (const auto ref = refs_.find(&schema); ref != refs_.end()) find_cycle(*ref->second);
    for (const std::string_view name : kInPlaceLists) {
      const auto found = schema.find(std::string(name));
      if (found == schema.end()) continue;
      for (const Json& one : *found) find_cycle(one);
    }
    for (const std::string_view name : kInPlace) {
      const auto found = schema.find(std::string(name));
      if (found != schema.end()) find_cycle(*found);
    }
    open_.erase(&schema);
    done_.insert(&schema);
  }

  std::map<std::string, std::unique_ptr<RE2>, std::less<>>& patterns_;
  std::map<const Json*, const Json*>& refs_;
  const Json* root_ = nullptr;
  std::vector<const Json*> schemas_;
  std::set<const Json*> known_;
  std::map<std::string, const Json*> anchors_;
  std::vector<std::pair<const Json*, std::string>> wanted_;
  std::set<const Json*> open_;
  std::set<const Json*> done_;
  std::string fault_;
};

}  // namespace

base::Result<Schema> Schema::compile(std::string_view text) {
  constexpr engine::codec::JsonLimits kLimits{.max_bytes = 64 * 1024, .max_depth = 64, .max_values = 10'000};
  if (auto checked = engine::codec::check_json(text, kLimits); !checked) {
    return base::fail(base::Code::schema_invalid,
                      "the schema is not acceptable JSON: " + checked.error().message);
  }
  auto impl = std::make_shared<Impl>();
  impl->text = std::string(text);
  impl->root = Json::parse(text);
  const std::string fault = Compiler(impl->patterns, impl->refs).compile(impl->root);
  if (!fault.empty()) return base::fail(base::Code::schema_invalid, "schema " + fault);
  Schema schema;
  schema.impl_ = std::move(impl);
  return schema;
}

base::Status Schema::check(std::string_view json) const {
  if (auto checked = engine::codec::check_json(json); !checked) {
    return base::fail(base::Code::arguments_invalid, checked.error().message);
  }
  const std::string fault = SchemaChecker(impl_->patterns, impl_->refs).check(impl_->root, Json::parse(json));
  if (!fault.empty()) return base::fail(base::Code::arguments_invalid, fault);
  return {};
}

const std::string& Schema::text() const {
  return impl_->text;
}

}  // namespace sandglass::activities::gateway
