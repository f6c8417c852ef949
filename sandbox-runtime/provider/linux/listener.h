// The network of a jail: loopback and one listening socket (V4). Called inside its network namespace, before
// privileges drop: in the child, or (root) in a thread of the host that makes the namespace while the groups
// are made, which is half of the time that cloning takes. 0 or errno.
#pragma once

#include "engine/base/unique_fd.h"

namespace sandglass::sandbox_runtime::provider::linux_jail {

int raise_loopback();
/// 127.0.0.1:kProxyPort, non-blocking, close-on-exec.
int open_listener(engine::base::UniqueFd& listener);

struct Network {
  engine::base::UniqueFd space;     // the namespace
  engine::base::UniqueFd listener;  // invalid unless wanted
};
/// A network namespace with loopback raised. The calling thread is in it meanwhile and back when this
/// returns; if it cannot come back the process ends, because whatever it did next would be done in the wrong
/// place.
int make_network(bool with_listener, Network& made);

}  // namespace sandglass::sandbox_runtime::provider::linux_jail
