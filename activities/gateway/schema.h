// JSON Schema (2020-12 and draft-07 in their common core) for tool arguments. Written for hostile input
// (ADV-G17, FR-124, FR-125): patterns are RE2, `$ref` stays inside the document, and every check has a budget
// of steps and depth.
//
// What a schema says is either checked or refused at compile(): keywords of the standard that are not
// implemented here (unevaluated*, $dynamicRef, dependentSchemas …) are errors; unknown keywords are
// annotations, as the standard has it. Thread rule: a compiled schema is immutable and may be shared.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/hash.h"
#include "engine/base/result.h"

namespace sandglass::activities::gateway {

namespace base = engine::base;

class Schema {
 public:
  /// schema_invalid: not a schema, a reference to elsewhere or to nothing, a cycle that checks nothing, a
  /// pattern that RE2 does not take.
  static base::Result<Schema> compile(std::string_view text);

  /// arguments_invalid, with the place in the value. The value's text is checked first (duplicate keys,
  /// depth, numbers).
  base::Status check(std::string_view json) const;

  const std::string& text() const;  // byte for byte what was given

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sandglass::activities::gateway
