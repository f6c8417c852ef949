#include "engine/core/one_of.h"

#include "engine/run/commands.h"
#include "engine/run/events.h"

namespace sandglass::engine::core {

template class OneOf<run::AnyEvent>;
template class OneOf<run::AnyWorkflowCommand>;
template class OneOf<run::AnyCommand>;

}  // namespace sandglass::engine::core
