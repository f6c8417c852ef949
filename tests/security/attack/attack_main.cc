// sandbox-attack NAME [ARGUMENTS…], see attack.h. As the first process of a sandbox it is a hostile init.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/security/attack/attack.h"

namespace sandglass::tests::attack {
namespace {

int count = 0;

struct Named {
  const char* name;
  int (*run)(char** argv);
};
constexpr Named kAttacks[] = {
    {"kernel", kernel}, {"foreign", foreign},   {"machine", machine},     {"files", files},
    {"find", find},     {"env", environment},   {"deep", deep},           {"wide", wide},
    {"swap", swap},     {"memory", memory},     {"forks", forks},         {"disk", disk},
    {"inodes", inodes}, {"spin", spin},         {"zombies", zombies},     {"fds", descriptors},
    {"queues", queues}, {"counters", counters}, {"neighbour", neighbour}, {"flood", flood},
    {"both", both},     {"split", split},
};

}  // namespace

void breach(const char* format, ...) {
  ++count;
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}

int breaches() {
  return count;
}

std::string error_name(int error) {
  const char* name = ::strerrorname_np(error);
  return error == 0 ? "done" : name != nullptr ? name : std::to_string(error);
}

std::uint64_t number(char** argv, int index, std::uint64_t otherwise) {
  for (int i = 0; i <= index; ++i) {
    if (argv[i] == nullptr) return otherwise;
  }
  return std::strtoull(argv[index], nullptr, 10);
}

bool send_descriptors(int socket, int copies, std::string_view packet) {
  const std::vector<int> batch(static_cast<std::size_t>(copies), 0);
  const std::size_t bytes = batch.size() * sizeof(int);
  std::vector<char> space(CMSG_SPACE(bytes));
  iovec part{const_cast<char*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(head), batch.data(), bytes);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(packet.size());
}

}  // namespace sandglass::tests::attack

int main(int argc, char** argv) {
  using namespace sandglass::tests::attack;
  if (::getpid() == 1) return be_init();
  for (const Named& each : kAttacks) {
    if (argc < 2 || std::strcmp(argv[1], each.name) != 0) continue;
    const int status = each.run(argv + 2);
    std::fflush(stdout);
    return breaches() > 0 ? 99 : status;
  }
  std::fprintf(stderr, "no such attack\n");
  return 64;
}
