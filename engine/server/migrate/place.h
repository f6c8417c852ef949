// Where the parts of a move are in the data folder:
//
//   journal               the one that a server opens: the former, then the new one
//   journal.moving        the copy, not whole yet
//   journal.moved         the copy, whole; after the exchange the former one, for a moment
//   journal.former-N      the former one, and beside it its mark (.mark)
//
// Thread rule: one thread, with the folder's locks. Errors: io_error, disk_full.
#pragma once

#include <optional>
#include <string>

#include "engine/base/data_folder.h"
#include "engine/base/result.h"
#include "engine/journal/kafka/place.h"

namespace sandglass::engine::server::migrate {

/// What this process makes from here on belongs to whom the journal belongs to, who is the engine (V2).
base::Status make_files_as_engine(const base::DataFolder& folder);

std::string unfinished_copy(const base::DataFolder& folder);
std::string whole_copy(const base::DataFolder& folder);
bool exists(const std::string& path);
/// Both, with what lies beside them.
base::Status remove_copies(const base::DataFolder& folder);
/// The unfinished one is whole.
base::Status finish_copy(const base::DataFolder& folder);

/// There must be room for one more journal like the present one.
base::Status check_room(const base::DataFolder& folder);

/// Which topic the new journal is on; nothing: none, it is embedded.
using OnTopic = std::optional<journal::kafka::Place>;
/// The copy takes the journal's place. Where the former is then.
base::Result<std::string> put_in_place(const base::DataFolder& folder, const OnTopic& topic);
/// The rest of it, where it was ended in between.
base::Result<std::string> finish_exchange(const base::DataFolder& folder, const OnTopic& topic);

}  // namespace sandglass::engine::server::migrate
