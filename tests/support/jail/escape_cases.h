// What a command inside tries and must not get, as root and rootless alike (adversarial.md A and B). Included
// by one test file of each kind.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/support/jail/jail_rig.h"

namespace sandglass::tests {

class EscapeTest : public testing::Test {
 protected:
  std::string python(const std::string& code) {
    const CommandResult result =
        box_.run("cat > /tmp/t.py <<'EOF'\n" + code + "\nEOF\npython3 /tmp/t.py 2>&1");
    return result.output;
  }
  std::string shell(const std::string& command) { return box_.run(command + " 2>&1").output; }

  JailRig rig_;
  Sandbox box_ = rig_.make();
};

/// Runs system calls by number and prints errno names, a line each.
inline std::string calls(const std::string& lines) {
  return "import ctypes,errno,os\n"
         "libc=ctypes.CDLL(None,use_errno=True)\n"
         "def call(*a):\n"
         "  ctypes.set_errno(0); r=libc.syscall(*[ctypes.c_long(x) if isinstance(x,int) else x for x in a])\n"
         "  print('ok' if r>=0 else errno.errorcode[ctypes.get_errno()])\n" +
         lines;
}

TEST_F(EscapeTest, MountCallsAreRefused) {                                    // ADV-A21, ADV-A29
  EXPECT_EQ(python(calls("call(165,b'none',b'/tmp',b'cgroup',0,b'memory')\n"  // mount
                         "call(166,b'/proc',2)\n"                             // umount2
                         "call(155,b'.',b'.')\n"                              // pivot_root
                         "call(428,-100,b'/',0)\n"                            // open_tree
                         "call(429,-1,b'',-100,b'/tmp',4)\n"                  // move_mount
                         "call(430,b'tmpfs',0)\n"                             // fsopen
                         "call(442,-100,b'/',0,0,0)\n"                        // mount_setattr
                         "call(161,b'/tmp')\n")),                             // chroot
            "EPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\n");
}

TEST_F(EscapeTest, NoNamespaceCanBeMadeOrEntered) {          // ADV-B10
  EXPECT_EQ(python(calls("call(272,0x10000000)\n"            // unshare user
                         "call(272,0x20000)\n"               // unshare mount
                         "call(56,0x10000000|17,0,0,0,0)\n"  // clone user
                         "call(435,b'\\0'*88,88)\n"          // clone3
                         "call(308,0,0)\n")),                // setns
            "EPERM\nEPERM\nEPERM\nENOSYS\nEPERM\n");
}

TEST_F(EscapeTest, KernelSurfaceThatNobodyNeedsIsClosed) {  // ADV-B9, ADV-B11, ADV-B13, ADV-B19
  EXPECT_EQ(
      python(calls("for n in (101,310,311,321,298,323,304,303,175,313,169,172,227,103,248,250,246,425,427):\n"
                   "  call(n,0,0,0,0,0)\n")),
      "EPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPER"
      "M\n"
      "EPERM\nEPERM\nENOSYS\nENOSYS\n");
}

TEST_F(EscapeTest, OnlyInternetAndLocalStreamSocketsCanBeMade) {  // ADV-A30, ADV-B23
  EXPECT_EQ(
      python("import socket,errno\n"
             "for f,t,p in "
             "((16,3,0),(40,1,0),(17,3,0),(38,5,0),(15,3,2),(44,3,0),(1,2,0),(2,3,1),(2,2,1),(2,1,132),\n"
             "              (1,1,0),(2,1,0),(10,2,0)):\n"
             "  try: socket.socket(f,t,p).close(); print('ok')\n"
             "  except OSError as e: print(errno.errorcode[e.errno])\n"),
      "EAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\n"
      "EAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\nok\nok\nok\n");
}

TEST_F(EscapeTest, ForeignEntriesEndTheProcess) {  // ADV-B14
  const std::string code =
      "import ctypes,os\n"
      "libc=ctypes.CDLL(None,use_errno=True)\n"
      "def tries(f):\n"
      "  p=os.fork()\n"
      "  if p==0:\n    f(); os._exit(0)\n"
      "  print(os.waitstatus_to_exitcode(os.waitpid(p,0)[1]))\n"
      "import mmap\n"
      "def int80():\n"
      "  m=mmap.mmap(-1,4096,prot=7); m.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
      "  ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()\n"
      "tries(lambda: libc.syscall(ctypes.c_long(0x40000000|39)))\n"
      "tries(int80)\n";
  EXPECT_EQ(python(code), "-31\n-31\n");  // SIGSYS
}

TEST_F(EscapeTest, TerminalInjectionIsRefusedAlsoWithHighBits) {  // ADV-B14, ADV-B15
  EXPECT_EQ(python(calls("m,s=os.openpty()\n"
                         "call(16,s,0x5412,b'x')\n"
                         "call(16,s,0x5412|0x100000000,b'x')\n"
                         "call(16,s,0x541C,b'x')\n")),
            "EPERM\nEPERM\nEPERM\n");
}

TEST_F(EscapeTest, WithoutEtcOfTheMachineNoHostNameOrUserIsKnown) {
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(shell("uname -n"), "sandbox\n");
  EXPECT_EQ(shell("getent passwd | cut -d: -f1 | sort | tr '\\n' ' '"), "nobody root sandbox ");
  EXPECT_EQ(shell("cat /etc/resolv.conf | grep -c nameserver"), "0\n");
}

TEST_F(EscapeTest, ProcShowsOwnProcessesAndNothingOfTheKernel) {  // ADV-A15, ADV-A18
  EXPECT_EQ(
      box_.run(
              "cat /proc/kcore /proc/keys /proc/kallsyms /proc/kmsg /proc/cmdline /proc/slabinfo 2>/dev/null")
          .output,
      "");
  EXPECT_NE(box_.run("cat /proc/1/environ").status, 0);
  EXPECT_NE(box_.run("ls /proc/1/root/").status, 0);
  EXPECT_NE(box_.run("ls /proc/1/fd").status, 0);
  EXPECT_NE(box_.run("cat /proc/1/mem").status, 0);
  EXPECT_NE(box_.run("dmesg").status, 0);
  EXPECT_NE(box_.run("echo b > /proc/sysrq-trigger && test -c /proc/sysrq-trigger").status, 0);
  EXPECT_NE(box_.run("echo '|/tmp/x' > /proc/sys/kernel/core_pattern").status, 0);
  EXPECT_NE(box_.run("echo x > /proc/sys/kernel/hostname").status, 0);
  EXPECT_EQ(shell("ls -d /proc/[0-9]* | wc -l | tr -d '\\n'").size(), 1u);  // fewer than ten processes
  EXPECT_EQ(shell("ls /sys | wc -l"), "0\n");
}

TEST_F(EscapeTest, ProcFilesThatALaterKernelAddsWouldBeCovered) {
  // Everything in /proc that is neither a process nor on the allow-list is an empty file or folder.
  const std::string left = shell(
      "cd /proc; for f in *; do case $f in "
      "[0-9]*|self|thread-self|mounts|net|stat|uptime|loadavg|version|filesystems|"
      "sysvipc|meminfo|cpuinfo|sys) ;; *) test -d $f && test -n \"$(ls -A $f)\" && echo $f; test -f $f && "
      "test -n \"$(cat $f 2>/dev/null | head -c1)\" && echo $f;; esac; done; true");
  EXPECT_EQ(left, "");
}

TEST_F(EscapeTest, ACommandHoldsOnlyItsThreeDescriptors) {  // ADV-A17
  EXPECT_EQ(shell("for f in /proc/self/fd/*; do echo ${f##*/}; done | sort -n | tr '\\n' ' '"), "0 1 2 3 ");
  // 3 is the folder that the shell's glob holds open; it exists in that process only.
  EXPECT_EQ(python("import os\nprint(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:3])"),
            "[0, 1, 2]\n");
}

TEST_F(EscapeTest, TheBaseCannotBeWritten) {  // ADV-A6, ADV-A23
  for (const char* path :
       {"/x", "/usr/x", "/etc/x", "/etc/passwd", "/dev/x", "/var/x", "/run/x", "/bin/x", "/sys/x"}) {
    EXPECT_FALSE(box_.run(std::string("echo x > ") + path).ok()) << path;
  }
  EXPECT_FALSE(box_.run("ln /usr/bin/env /workspace/env").ok());
  EXPECT_FALSE(box_.run("mknod /workspace/disk b 254 0").ok());
  EXPECT_FALSE(box_.run("mknod /workspace/null c 1 3").ok());
  EXPECT_EQ(shell("cp /usr/bin/id /workspace/id; chmod 4755 /workspace/id; /workspace/id -u"), "1000\n");
  EXPECT_TRUE(
      box_.run("echo x > /workspace/x && echo x > /tmp/x && echo x > /dev/shm/x && echo x > ~/x && echo x "
               "> /dev/null")
          .ok());
}

TEST_F(EscapeTest, SetuidProgramsGiveNothing) {  // ADV-A23
  EXPECT_FALSE(box_.run("echo | su root -c id").ok());
  EXPECT_EQ(shell("findmnt -n -o OPTIONS /usr | grep -c nosuid"), "1\n");
}

TEST_F(EscapeTest, DirectConnectionsHaveNoRoute) {  // ADV-C1
  EXPECT_EQ(python("import socket,errno\n"
                   "for a in ('1.1.1.1','10.0.0.1','169.254.169.254'):\n"
                   "  s=socket.socket()\n"
                   "  try: s.connect((a,80)); print('connected')\n"
                   "  except OSError as e: print(errno.errorcode[e.errno])\n"
                   "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                   "try: s.sendto(b'x',('8.8.8.8',53)); print('sent')\n"
                   "except OSError as e: print(errno.errorcode[e.errno])\n"),
            "ENETUNREACH\nENETUNREACH\nENETUNREACH\nENETUNREACH\n");
}

TEST_F(EscapeTest, LimitsCannotBeRaised) {  // ADV-B17
  EXPECT_FALSE(box_.run("ulimit -n 1000000").ok());
  EXPECT_FALSE(box_.run("ulimit -c unlimited && test $(ulimit -c) != 0").ok());
  EXPECT_FALSE(box_.run("nice -n -5 true 2>&1 | grep -q . || false; renice -n -5 $$").ok());
}

}  // namespace sandglass::tests
