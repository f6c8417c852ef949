// The limit of core files (RLIMIT_CORE, bytes) that keeps a crash from the machine. 0 only says that no file
// is written: where core_pattern names a program the kernel still runs that, as root and outside every
// sandbox, with the memory of whoever crashed as its input. For exactly 1 it does not, and 1 is too small for
// a file (core(5)).
#pragma once

namespace sandglass::engine::base {

inline constexpr unsigned long kNoCoreDump = 1;

}  // namespace sandglass::engine::base
