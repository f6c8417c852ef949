// Whether the tenant key and the folder's id are those that the journal was made with: both are files without
// a check of their own, and a changed one would fit no history (J23), or another installation's sandboxes
// (V1).
//
// Thread rule: pure functions. Errors: record_damaged, naming the file.
#pragma once

#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"
#include "engine/journal/rows/rows.h"

namespace sandglass::engine::server::compose {

/// What a journal keeps of its key; tells nothing about it.
std::string key_check_of(const std::string& tenant_key);

base::Status check_belongings(const journal::JournalMeta& meta, const base::DataFolder& folder,
                              const std::string& tenant_key);

}  // namespace sandglass::engine::server::compose
