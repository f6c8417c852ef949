// The files of a folder as upload parts, sorted by name within each folder, never following a symlink.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "schemas/sandglass/v1/content.pb.h"

namespace sandglass::engine::client {

/// False: whoever takes the parts has had enough; the walk then ends with ok.
using PartTaker = std::function<bool(const ::sandglass::v1::TreePart&)>;

/// Parts of at most 256 KiB. Errors: file_unreadable, naming the path.
base::Status walk_tree(const std::string& folder, const PartTaker& take);

}  // namespace sandglass::engine::client
