// Child processes of the supervisor: started with exactly the descriptors that they are given, and ended by
// the kernel when the supervisor's main thread ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"

namespace sandglass::engine::server {

struct ChildStart {
  std::string program;                 // absolute path
  std::vector<std::string> arguments;  // without argv[0]
  /// Descriptors that the child keeps under the same numbers.
  std::vector<int> descriptors;
  /// The door of the control group that it enters before it runs anything (V5); -1: it stays in the
  /// supervisor's.
  int group = -1;
};

/// A started child. Not ended by destruction.
struct Child {
  pid_t pid = -1;
  base::UniqueFd pidfd;

  bool running() const { return pid > 0; }
};

/// Thread rule: call from the supervisor's only thread (PDEATHSIG fires when the creating thread ends).
/// Errors: io_error; a program that cannot be executed ends with status 127.
base::Result<Child> start_child(const ChildStart& start);

/// Ends the child with SIGKILL and waits until it is gone.
void kill_and_wait(Child& child);

/// The folder of the running program, where its siblings are.
std::string program_folder();

/// A memfd with these bytes, at offset 0, for children that read their configuration from a descriptor.
base::Result<base::UniqueFd> bytes_in_memory(const char* name, std::string_view bytes);

}  // namespace sandglass::engine::server
