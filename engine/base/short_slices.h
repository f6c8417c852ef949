// How soon a process gets a processor that others keep busy.
#pragma once

namespace sandglass::engine::base {

/// Asks for turns of 0.1 ms, the shortest there are, for the calling thread and all that it starts later. A
/// thread that wakes with a shorter turn than the one at work is let in at once instead of at that one's end;
/// its share stays the same. For a loop that works for microseconds at a time and then waits, as an engine
/// that syncs its journal does. Linux 6.12 and later (sched_setattr(2), sched_runtime); older ones ignore it.
void ask_for_short_slices();

}  // namespace sandglass::engine::base
