// An answer of a name server, whole. Oracle: no more addresses than are kept, all of the family asked for.
#include <string>

#include "engine/base/check.h"
#include "engine/net/dns_message.h"
#include "tests/fuzz/fuzz_target.h"

FUZZ_TARGET(dns_answer) {
  using namespace sandglass::engine::net;
  for (const bool v6 : {false, true}) {
    for (const char* name : {"a.example", "", "b"}) {
      const auto answer = read_dns_answer(input, name, v6);
      if (!answer) continue;
      SG_CHECK(answer->size() <= max_addresses, "too many addresses");
      for (const Address& address : *answer) SG_CHECK(address.v6 == v6, "an address of the other family");
    }
  }
}
