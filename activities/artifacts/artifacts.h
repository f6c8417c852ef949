// The activity "artifact.store": input {tenant, name, text | blob} → result {id, name, stored_name, mime,
// size, public_digest}. The stored name is neutral (ADV-F17); the given one is only ever shown. Thread rule:
// as core::Activity.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/ports.h"
#include "engine/base/result.h"
#include "engine/blob/blob.h"
#include "engine/core/ports/activity.h"

namespace sandglass::activities::artifacts {

namespace base = engine::base;
namespace core = engine::core;

inline constexpr const char* kStoreActivity = "artifact.store";

/// Both must outlive the registry's activities.
void register_artifact_activity(core::ActivityRegistry& registry, engine::blob::BlobStore& blobs,
                                base::TaskRunner& runner);

/// A name that can be shown and used as a file name anywhere: 1 to 128 bytes of UTF-8 without '/', '\',
/// control, format and direction characters, not starting with '.' or '-'.
bool is_artifact_name(std::string_view name);

/// From the first bytes, then from the name's ending; never trusted for anything but display.
std::string guess_mime(std::string_view name, std::string_view head);

}  // namespace sandglass::activities::artifacts
