#include "engine/net/host.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace sandglass::engine::net {
namespace {

using namespace std::string_literals;

TEST(Host, SpellingsOfOneNameAreOneName) {
  // FR-160, ADV-C18: letter case and one dot at the end.
  for (const char* text : {"evil.com", "EVIL.com", "evil.com.", "eViL.CoM."}) {
    const auto host = parse_host(text);
    ASSERT_TRUE(host) << text;
    EXPECT_EQ(host->text, "evil.com") << text;
    EXPECT_FALSE(host->literal) << text;
  }
  EXPECT_EQ(parse_host("localhost.")->text, "localhost");
  EXPECT_EQ(parse_host("xn--bcher-kva.example")->text, "xn--bcher-kva.example");
  EXPECT_EQ(parse_host("my_bucket.s3.example.com")->text, "my_bucket.s3.example.com");
}

TEST(Host, WhatIsNoPlainNameIsRefused) {
  // FR-160, ADV-C7, C9, C17, C18.
  const std::string refused[] = {"",
                                 ".",
                                 "..",
                                 "a..b",
                                 ".a",
                                 "a.b..",
                                 "[evil.com]",
                                 "[]",
                                 "[::1",
                                 "::1",
                                 "::1]",
                                 "[::1%lo]",
                                 "[fe80::1%25eth0]",
                                 "[127.0.0.1]",
                                 "evil%2ecom",
                                 "allowed.com%2eevil.com",
                                 "127.0.0.1%00",
                                 "evil.com\0.allowed.com"s,
                                 "evil.com\0"s,
                                 "allowed.com@evil.com",
                                 "user:pw@host",
                                 "evil.com#allowed.com",
                                 "evil.com?allowed.com",
                                 "evil.com/allowed.com",
                                 "evil.com\\allowed.com",
                                 "evil.com allowed.com",
                                 " evil.com",
                                 "evil.com\t",
                                 "evil.com\r\nX: y",
                                 "evil.com\n",
                                 "evil.com:80",
                                 "-a.com",
                                 "a-.com",
                                 "a.-b",
                                 "b\xc3\xbc"
                                 "cher.example",
                                 "\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1",
                                 "\xef\xbc\x91.2.3.4",
                                 "ev\xd1\x96l.com",
                                 std::string(64, 'a') + ".com",
                                 std::string(300, 'a'),
                                 "a\x7f.com",
                                 "a,b.com",
                                 "a;b.com",
                                 "*.com",
                                 "a*b.com",
                                 "$(id).com"};
  for (const std::string& text : refused) {
    const auto host = parse_host(text);
    EXPECT_FALSE(host) << testing::PrintToString(text);
    if (!host) EXPECT_EQ(host.error().code, base::Code::name_refused);
  }
}

TEST(Host, OddFormsOfIpv4AreRefusedAndThePlainFormIsALiteral) {
  // ADV-C7: what inet_aton, a browser or a C library would take for an address.
  for (const char* text :
       {"127.1",        "2130706433", "0x7f.1",     "0x7f000001", "0177.0.0.1", "0",
        "017700000001", "127.0.0.01", "1.2.3",      "1.2.3.4.5",  "256.1.1.1",  "1.2.3.256",
        "0x7f.0.0.0x1", "a.0x1f",     "a.123",      "1.2.3.0x4",  "0x",         "1.2.3.04",
        "00.0.0.0",     "4294967295", "127.0.0.1.."}) {
    EXPECT_FALSE(parse_host(text)) << text;
  }
  for (const char* text : {"127.0.0.1", "127.0.0.1."}) {
    const auto host = parse_host(text);
    ASSERT_TRUE(host && host->literal) << text;
    EXPECT_EQ(host->text, "127.0.0.1");
  }
  EXPECT_TRUE(parse_host("0.0.0.0")->literal);
  EXPECT_FALSE(parse_host("1.example.com")->literal);
}

TEST(Host, Ipv6LiteralsHaveOneForm) {
  for (const char* text : {"[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]"}) {
    const auto host = parse_host(text);
    ASSERT_TRUE(host && host->literal) << text;
    EXPECT_EQ(host->text, "::1");
    EXPECT_EQ(host->bracketed(), "[::1]");
  }
  EXPECT_EQ(parse_host("[::ffff:127.0.0.1]")->text, "::ffff:127.0.0.1");
}

TEST(Authority, ThePortIsDecimalAndInRange) {
  // ADV-C6
  EXPECT_EQ(parse_authority("a.example:443", 0)->port, 443);
  EXPECT_EQ(parse_authority("[::1]:8080", 0)->port, 8080);
  EXPECT_EQ(parse_authority("a.example", 80)->port, 80);
  for (const char* text :
       {"a.example", "a.example:", "a.example:0", "a.example:65536", "a.example:0x50", "a.example:+80",
        "a.example:-1", "a.example:080", "a.example:80:81", "a.example:8 0", "a.example: 80",
        "a.example:99999999999", "[::1]", "[::1]80", "::1:80", ":80", "a.example:80\r"}) {
    EXPECT_FALSE(parse_authority(text, 0)) << text;
  }
}

TEST(HttpUrl, OnlyPlainHttpAndHttpsWithoutUserInformation) {
  const auto url = parse_http_url("HTTPS://API.Example.com.:8443/v1/x?key=CANARY#frag");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->target.text(), "api.example.com:8443");
  EXPECT_EQ(url->path, "/v1/x?key=CANARY");
  EXPECT_EQ(url->loggable(), "https://api.example.com:8443/v1/x");  // FR-173
  EXPECT_EQ(parse_http_url("http://a.example?x=1")->path, "/?x=1");
  for (const char* text :
       {"ftp://a.example/", "file:///etc/passwd", "gopher://a.example", "//a.example", "a.example", "http:a",
        "http://u:p@a.example/", "http://a.example\\@b.example/", "http://a.example/a\\b", "http:///x",
        "http://a.example/a b", "http://a.example/\r\nHost: b", "javascript:1", "http", "https", ""}) {
    EXPECT_FALSE(parse_http_url(text)) << text;
  }
}

TEST(HttpUrl, ARefusedUrlNeverShowsItsSecrets) {
  // FR-173
  for (const char* text :
       {"http://user:CANARY@host/", "http://user:CANARY\\@host/", "https://h.example:x/?k=CANARY",
        "ftp://h/?k=CANARY", "http://h..x/?k=CANARY", "http://h.example/ ?k=CANARY"}) {
    const auto url = parse_http_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().message.find("CANARY"), std::string::npos) << url.error().message;
  }
}

TEST(Host, RandomBytesNeverGiveANameOutsideTheGrammarAndParsingIsStable) {
  std::mt19937 random(20240601);
  const std::string alphabet = "aZ0129.-_:[]%@#/\\ \t\r\n\0x\xc3\xbc*f"s;
  int accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text;
    const std::size_t length = random() % 14;
    for (std::size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
    const auto host = parse_host(text);
    (void)parse_authority(text, 80);
    (void)parse_http_url("http://" + text);
    if (!host) continue;
    ++accepted;
    if (!host->literal) {
      ASSERT_EQ(host->text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_."), std::string::npos);
      ASSERT_NE(host->text.back(), '.');
    }
    ASSERT_EQ(*parse_host(host->bracketed()), *host) << testing::PrintToString(text);
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace sandglass::engine::net
