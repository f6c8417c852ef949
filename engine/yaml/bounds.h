// Whether a YAML text stays within bounds, found out before anything of it is kept. A short text can stand
// for a huge document, since an alias repeats what its anchor names, or for one that is too deep to walk;
// whoever reads YAML from outside asks here first and loads it only then.
//
// Ownership: nothing is kept. Thread rule: pure function. Errors: the first fault, with its place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sandglass::engine::yaml {

struct Bounds {
  std::size_t values = 20'000;               // with aliases filled in; fields' names are not counted
  std::size_t bytes = std::size_t{1} << 20;  // of texts and fields' names, with aliases filled in
  std::size_t depth = 40;
};

struct Fault {
  int line = 0;  // from 1; 0: unknown
  int column = 0;
  std::string what;  // not escaped
};

/// What is not valid YAML is a fault too, and so is a second document.
std::optional<Fault> find_fault(std::string_view text, const Bounds& bounds = {});

}  // namespace sandglass::engine::yaml
