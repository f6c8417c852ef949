// The network of a jail: loopback and one listening socket (V4). Called in the child, inside its network
// namespace, before privileges drop. 0 or errno.
#pragma once

#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

int raise_loopback();
/// 127.0.0.1:kProxyPort, non-blocking, close-on-exec.
int open_listener(engine::base::UniqueFd& listener);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
