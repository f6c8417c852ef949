// What the attacks share. An attack prints a line for each thing that it got and must not get; the program
// then says "held" if there was none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sandglass::tests::attack {

/// Counts and prints a breach.
[[gnu::format(printf, 1, 2)]] void breach(const char* format, ...);
int breaches();

std::string error_name(int error);
/// The command's arguments after its name.
std::uint64_t number(char** argv, int index, std::uint64_t otherwise);
/// Sends `packet` with so many copies of descriptor 0; true if the socket took it.
bool send_descriptors(int socket, int copies, std::string_view packet);

// kernel.cc
int kernel(char** argv);   // calls, sockets, namespaces, privileges
int foreign(char** argv);  // x32, int 0x80, a 32-bit program
// machine.cc
int machine(char** argv);  // what is there once for everybody
// files.cc
int files(char** argv);  // base, /proc, /dev, descriptors, hard links, setuid, attributes
int find(char** argv);   // NAME: whatever is called or contains it
int environment(char** argv);
// trees.cc
int deep(char** argv);  // LEVELS
int wide(char** argv);  // FILES
int swap(char** argv);  // A B: exchanged for ever
// hogs.cc
int memory(char** argv);  // plain|locked|many|shm|memfd|pipes|sysv|sockets
int forks(char** argv);   // bomb|few
int disk(char** argv);    // keep|remove
int inodes(char** argv);
int spin(char** argv);     // THREADS
int zombies(char** argv);  // COUNT
int descriptors(char** argv);
int queues(char** argv);     // leaves System V and POSIX objects behind; "look": for those of others
int counters(char** argv);   // takes all that the kernel counts by user; "look": is anything left?
int neighbour(char** argv);  // MS, or until a file "stop" is there: works, and tells what failed
// floods.cc
int flood(char** argv);  // BYTES of kinds that hurt terminals
int both(char** argv);   // BYTES on each stream, a byte at a time in turn
int split(char** argv);  // characters cut into bytes
// hostile_init.cc
int be_init();  // as the first process of a sandbox

}  // namespace sandglass::tests::attack
