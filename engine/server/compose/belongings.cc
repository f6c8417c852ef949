#include "engine/server/compose/belongings.h"

#include "engine/base/hash.h"

namespace sandglass::engine::server::compose {

std::string key_check_of(const std::string& tenant_key) {
  return std::string(base::hmac_sha256(tenant_key, "sandglass tenant key check 1").view());
}

base::Status check_belongings(const journal::JournalMeta& meta, const base::DataFolder& folder,
                              const std::string& tenant_key) {
  if (!meta.key_check.empty() && meta.key_check != key_check_of(tenant_key)) {
    return base::fail(base::Code::record_damaged,
                      "the tenant key " + folder.file("keys/tenant") +
                          " is not the one that the journal was made with: it was changed or is damaged. "
                          "Restore that file from a backup; no history fits another key");
  }
  if (!meta.folder_id.empty() && meta.folder_id != folder.id()) {
    return base::fail(base::Code::record_damaged,
                      "the file " + folder.file("id") + " holds " + folder.id() +
                          ", but the journal belongs to the data folder with the id " + meta.folder_id +
                          ": write that id back into the file");
  }
  return {};
}

}  // namespace sandglass::engine::server::compose
