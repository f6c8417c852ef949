// What must be true of a disk, whatever happened to it: every check gives violations as text.
#pragma once

#include <string>
#include <vector>

#include "engine/fold/stream_kind.h"
#include "engine/view/memory/disk.h"

namespace sandglass::tests::simulation {

/// J22: order rows are without gap, chain from genesis, and name records whose leaf they hold.
void check_chains(const engine::view::MemoryDisk& disk, std::uint16_t partitions, std::string_view journal_id,
                  std::vector<std::string>& violations);

/// J1: a view made anew from records alone has the same rows.
void check_view(const engine::view::MemoryDisk& disk, const engine::fold::Registry& kinds,
                std::vector<std::string>& violations);

/// All records in the order of their time, a line each, for whoever looks for a bug.
std::string dump(const engine::view::MemoryDisk& disk, std::uint16_t partitions);

}  // namespace sandglass::tests::simulation
