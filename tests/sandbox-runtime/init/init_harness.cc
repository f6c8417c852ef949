#include "tests/sandbox-runtime/init/init_harness.h"

#include <sys/prctl.h>

#include <cstring>
#include <fstream>

namespace sandglass::sandbox_runtime::init {

void InitHarness::prepare_process() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // as the launcher leaves it
}

pid_t InitHarness::receive_at_barrier(std::uint64_t expected) const {
  std::uint64_t number = 0;
  iovec part{&number, sizeof number};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(recvmsg(barrier(), &message, 0), 8);
  EXPECT_EQ(number, expected);
  ucred credentials;
  std::memcpy(&credentials, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof credentials);
  return credentials.pid;
}

void InitHarness::let_in(std::uint64_t number) const {
  std::uint64_t entered[2] = {};
  EXPECT_EQ(::send(barrier(), &number, sizeof number, 0), 8);
  EXPECT_EQ(recv(barrier(), entered, sizeof entered, 0), 16);
  EXPECT_EQ(entered[0], number);
}

std::string InitHarness::inside_number(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("NSpid:")) return line.substr(line.rfind('\t') + 1);
  }
  return {};
}

}  // namespace sandglass::sandbox_runtime::init
