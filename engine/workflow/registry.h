// The workflows that a program knows, by name and version.
//
//   registry.add("ship", "1", [](Context& ctx, Json input) -> Task<Result<Json>> { … });
//
//   struct Loop { int done = 0; template <class A> void serialize(A& a) { a(done); } };       // cereal
//   add_checkpointing<Loop>(registry, "loop", "1",                                            // checkpoint.h
//       [](const Json& input) -> Result<Loop> { … },                    // state at the start
//       [](Context& ctx, Loop state) -> Task<Result<Json>> { … });     // called again from each restart
//       point
//
// Filled before anything runs, read-only afterwards, then usable from any thread. A workflow's function
// object is never copied while runs use it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/workflow/context.h"
#include "engine/workflow/task.h"

namespace sandglass::engine::workflow {

struct Workflow {
  std::string name;
  std::string version;
  std::function<Task<base::Result<Json>>(Context&, Json)> start;
  /// From a checkpoint's bytes; null for workflows without checkpoints.
  std::function<base::Result<Task<base::Result<Json>>>(Context&, std::uint32_t schema_version,
                                                       std::string_view)>
      restart;
};

class Registry {
 public:
  void add(std::string name, std::string version,
           std::function<Task<base::Result<Json>>(Context&, Json)> start) {
    add(Workflow{
        .name = std::move(name), .version = std::move(version), .start = std::move(start), .restart = {}});
  }
  void add(Workflow workflow);

  /// Null if there is none. An empty version means the one that was added last under this name.
  const Workflow* find(std::string_view name, std::string_view version) const;
  /// The version that new runs get; empty for an unknown name.
  std::string latest(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> list() const;

 private:
  std::map<std::pair<std::string, std::string>, Workflow> workflows_;
  std::map<std::string, std::string, std::less<>> latest_;
};

}  // namespace sandglass::engine::workflow
