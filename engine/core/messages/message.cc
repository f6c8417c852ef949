#include "engine/core/messages/message.h"

namespace sandglass::engine::core {

template class OneOf<AnyMessageBody>;

}  // namespace sandglass::engine::core
