// What a test says that a plain user cannot run. The words "needs root" are what `scripts/test` looks for.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

/// First in a test that only root can run; `why` completes the sentence.
#define SANDGLASS_NEEDS_ROOT(why) \
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: " << (why)
