#include "engine/base/hash.h"

#include <gtest/gtest.h>

namespace sandglass::engine::base {
namespace {

TEST(Hash, Sha256GivesThePublishedValues) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Hash, PiecesHashAsTheWholeAndAHasherCanBeUsedAgain) {
  Sha256 hasher;
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(hasher.update("a").update("").update("bc").finish(), sha256("abc"));
  EXPECT_EQ(hasher.update_u64(0x0102030405060708).finish(), sha256("\x01\x02\x03\x04\x05\x06\x07\x08"));
}

TEST(Hash, HmacGivesThePublishedValues) {  // RFC 4231, cases 1, 2, 6 and 7
  EXPECT_EQ(hmac_sha256(std::string(20, '\x0b'), "Hi There").hex(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?").hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::string long_key(131, '\xaa');
  EXPECT_EQ(hmac_sha256(long_key, "Test Using Larger Than Block-Size Key - Hash Key First").hex(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac_sha256(long_key,
                        "This is a test using a larger than block-size key and a larger than block-size "
                        "data. The key needs to be hashed before being used by the HMAC algorithm.")
                .hex(),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

}  // namespace
}  // namespace sandglass::engine::base
