// Sandbox::tell, for the sources of class Sandbox only.
#pragma once

#include "sandbox-runtime/host/sandbox.h"

namespace sandglass::sandbox_runtime::host {

template <class Message>
void Sandbox::tell(const Message& message) {
  if (!control_) return;
  if (auto status = writer_.push(frames::encode(message)); !status)
    return lost("its first process does not read");
  flush();
}

}  // namespace sandglass::sandbox_runtime::host
