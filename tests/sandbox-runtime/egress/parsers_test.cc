#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <random>

#include "sandbox-runtime/egress/chunk_scanner.h"
#include "sandbox-runtime/egress/http_head.h"
#include "sandbox-runtime/egress/refusal.h"
#include "sandbox-runtime/egress/tls_hello.h"
#include "tests/support/client_hello.h"

namespace sandglass::sandbox_runtime::egress {
namespace {

using namespace std::string_literals;

const HeadLimits limits;

engine::base::Result<RequestHead> parse(const std::string& text) {
  const auto end = find_head_end(text, limits);
  if (!end) return std::unexpected(end.error());
  if (!*end) return engine::base::fail(engine::base::Code::invalid_argument, "incomplete");
  return parse_request_head(text.substr(0, **end), limits);
}

TEST(HttpHead, APlainRequestKeepsItsLinesAsTheyAre) {
  const std::string text =
      "GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nX-odd-CASE:  v 1 \r\nA: \xc3\xbc\r\n\r\n";
  const auto head = parse(text + "rest");
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->method, "GET");
  EXPECT_EQ(head->target, "http://a.example/x");
  EXPECT_EQ(*head->headers.find("x-ODD-case"), "v 1");
  EXPECT_EQ(head->text(),
            "GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nX-odd-CASE: v 1\r\nA: \xc3\xbc\r\n\r\n");
}

TEST(HttpHead, WhatTwoProgramsCouldReadDifferentlyIsRefused) {
  // ADV-C23
  const std::string line = "GET http://a.example/ HTTP/1.1\r\n";
  const std::string refused[] = {
      "GET http://a.example/ HTTP/1.1\nHost: a\n\n",
      line + "Host: a\nX: y\r\n\r\n",
      line + "Host: a\rX: y\r\n\r\n",
      line + "Host: a\r\n X: folded\r\n\r\n",
      line + "Host : a\r\n\r\n",
      line + ": a\r\n\r\n",
      line + "Ho st: a\r\n\r\n",
      line + "Host: a\0b\r\n\r\n"s,
      line + "Host: a\x01\r\n\r\n",
      line + "no-colon\r\n\r\n",
      "\r\n" + line + "\r\n",
      "GET  http://a.example/ HTTP/1.1\r\n\r\n"s,
      "GET http://a.example/ x HTTP/1.1\r\n\r\n"s,
      "GET\thttp://a.example/\tHTTP/1.1\r\n\r\n",
      "get http://a.example/ HTTP/1.1\r\n\r\n",
      "GET http://a.example/ HTTP/2.0\r\n\r\n",
      "GET http://a.example/ HTTP/1.1 \r\n\r\n",
      "GET http://a.example/\xc3\xbc HTTP/1.1\r\n\r\n",
      "GET http://a.example/\0 HTTP/1.1\r\n\r\n"s,
      "GET http://a.example/\r\n\r\n",
      " GET http://a.example/ HTTP/1.1\r\n\r\n",
      line + "X: " + std::string(40'000, 'a') + "\r\n\r\n",
  };
  for (const std::string& text : refused)
    EXPECT_FALSE(parse(text)) << testing::PrintToString(text.substr(0, 100));
  std::string many = line;
  for (int i = 0; i < 101; ++i) many += "A: b\r\n";
  EXPECT_FALSE(parse(many + "\r\n"));
}

TEST(HttpHead, TheBodysLengthIsStatedOnceAndPlainlyOrRefused) {
  const auto framing = [](const std::string& lines, const char* version = "HTTP/1.1") {
    const auto head =
        parse("POST http://a.example/ "s + version + "\r\nHost: a.example\r\n" + lines + "\r\n");
    EXPECT_TRUE(head);
    return request_framing(*head);
  };
  EXPECT_EQ(framing("")->kind, Framing::Kind::none);
  EXPECT_EQ(framing("Content-Length: 12\r\n")->length, 12u);
  EXPECT_EQ(framing("Transfer-Encoding: Chunked\r\n")->kind, Framing::Kind::chunked);
  for (const char* lines :
       {"Content-Length: 1\r\nContent-Length: 1\r\n", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: \"chunked\"\r\n", "Transfer-Encoding:\r\n", "Content-Length: +1\r\n",
        "Content-Length: 1,1\r\n", "Content-Length: 0x1\r\n", "Content-Length: -1\r\n", "Content-Length:\r\n",
        "Content-Length: 1 1\r\n", "Content-Length: 99999999999999999999\r\n",
        "content-length: 1\r\nCONTENT-LENGTH: 2\r\n"}) {
    EXPECT_FALSE(framing(lines)) << lines;
  }
  EXPECT_FALSE(framing("Transfer-Encoding: chunked\r\n", "HTTP/1.0"));
}

TEST(HttpHead, HopHeadersGoAndConnectionCannotNameWhatBothEndsNeed) {
  auto head = *parse(
      "GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Mine\r\nX-Mine: "
      "1\r\nProxy-Authorization: Basic x\r\n"
      "Keep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: close\r\nX-Other: 2\r\n\r\n");
  ASSERT_TRUE(remove_hop_headers(head.headers));
  ASSERT_EQ(head.headers.lines.size(), 2u);
  EXPECT_EQ(head.headers.lines[1].name, "X-Other");
  for (const char* name : {"host", "Content-Length", "transfer-encoding", "Authorization", "cookie"}) {
    auto bad = *parse("GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: close, "s + name + "\r\n\r\n");
    EXPECT_FALSE(remove_hop_headers(bad.headers)) << name;
  }
}

TEST(HttpHead, ByteByByteItEndsWhereItEndsAtOnce) {
  const std::string text = "GET http://a/ HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
  for (std::size_t have = 0; have < text.size(); ++have) {
    const auto end = find_head_end(text.substr(0, have), limits, have == 0 ? 0 : have - 1);
    ASSERT_TRUE(end) << have;
    EXPECT_FALSE(*end) << have;
  }
  EXPECT_EQ(**find_head_end(text, limits, text.size() - 1), text.size());
}

TEST(ChunkScanner, FindsTheEndHoweverThePiecesAreCut) {
  const std::string body = "5;ext=1\r\nhello\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    ChunkScanner scanner;
    ASSERT_EQ(*scanner.feed(body.substr(0, cut)), cut);
    ASSERT_EQ(*scanner.feed(body.substr(cut) + "GET next"), body.size() - cut);
    EXPECT_TRUE(scanner.finished());
    EXPECT_EQ(scanner.data_bytes(), 15u);
  }
}

TEST(ChunkScanner, MalformedBodiesAreRefused) {
  // ADV-C23: sizes, extensions and line ends that others forgive.
  const std::string refused[] = {"5\nhello\r\n",
                                 "5 \r\nhello\r\n",
                                 "+5\r\nhello\r\n",
                                 "0x5\r\nhello\r\n",
                                 "\r\nhello",
                                 "g\r\n",
                                 "-1\r\n",
                                 "5\r\nhelloX\r\n",
                                 "5\r\nhello\n0\r\n\r\n",
                                 "1000000000000\r\n",
                                 ";\r\n",
                                 "5;\x01\r\n",
                                 "5;" + std::string(300, 'a') + "\r\n",
                                 "0\r\n folded\r\n\r\n",
                                 "0\r\n: x\r\n\r\n",
                                 "0\r\nA: b\n\r\n",
                                 "0\r\nA: " + std::string(9000, 'b') + "\r\n\r\n",
                                 "0\r\n\rx",
                                 "5\r\rhello"};
  for (const std::string& text : refused) {
    ChunkScanner scanner;
    EXPECT_FALSE(scanner.feed(text)) << testing::PrintToString(text.substr(0, 40));
  }
}

TEST(ClientHelloReader, FindsTheServerNameAlsoInSeveralRecordsAndPieces) {
  const std::string hello = tests::support::client_hello("a.example.com");
  const auto whole = read_client_hello(hello);
  EXPECT_EQ(whole.state, ClientHello::State::complete);
  EXPECT_EQ(whole.server_name, "a.example.com");
  EXPECT_FALSE(whole.encrypted);
  for (std::size_t cut = 0; cut < hello.size(); ++cut) {
    EXPECT_EQ(read_client_hello(hello.substr(0, cut)).state, ClientHello::State::incomplete) << cut;
  }
  EXPECT_EQ(read_client_hello(tests::support::split_records(hello, 7)).server_name, "a.example.com");
  EXPECT_TRUE(
      read_client_hello(tests::support::client_hello("a.example.com", {.encrypted = true})).encrypted);
  EXPECT_EQ(read_client_hello(tests::support::client_hello("")).server_name, "");
  EXPECT_EQ(read_client_hello(tests::support::client_hello("a.example.com", {.twice = true})).state,
            ClientHello::State::not_tls);
  for (const char* text : {"GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\x16\x02", "\x17\x03\x01"}) {
    EXPECT_EQ(read_client_hello(text).state, ClientHello::State::not_tls) << text;
  }
}

TEST(ClientHelloReader, ReadsWhatARealClientSends) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(context);
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_set_tlsext_host_name(ssl, "a.example.com");
  EXPECT_EQ(SSL_connect(ssl), -1);  // it has said hello and waits
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(out, &bytes);
  const auto hello = read_client_hello(std::string_view(bytes, static_cast<std::size_t>(length)));
  EXPECT_EQ(hello.state, ClientHello::State::complete);
  EXPECT_EQ(hello.server_name, "a.example.com");
  EXPECT_FALSE(hello.encrypted);
  SSL_free(ssl);
  SSL_CTX_free(context);
}

TEST(Parsers, RandomBytesNeverCrashThem) {
  std::mt19937 random(7);
  const std::string seeds[] = {"GET http://a.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
                               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                               tests::support::client_hello("a.example.com"),
                               "5;x\r\nhello\r\n0\r\nA: b\r\n\r\n"};
  for (int round = 0; round < 60'000; ++round) {
    std::string text = seeds[round % 4];
    for (int change = 0; change < 3; ++change) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else
        text[at] = static_cast<char>(random());
      if (text.empty()) text = "x";
    }
    if (const auto end = find_head_end(text, limits); end && *end) {
      if (const auto head = parse_request_head(text.substr(0, **end), limits)) {
        (void)request_framing(*head);
        auto headers = head->headers;
        (void)remove_hop_headers(headers);
        // What we write reads back the same.
        ASSERT_EQ(parse_request_head(head->text(), limits)->text(), head->text());
      }
      if (const auto head = parse_response_head(text.substr(0, **end), limits))
        (void)response_framing(*head, "GET");
    }
    ChunkScanner scanner;
    if (const auto used = scanner.feed(text)) ASSERT_LE(*used, text.size());
    (void)read_client_hello(text);
  }
}

TEST(Refusal, SaysThatItIsPolicyAndNotToRetry) {
  // FR-167
  engine::net::Verdict verdict{.host = "evil.example",
                               .port = 443,
                               .rule = "default-deny\r\nX: y",
                               .reason = "no rule",
                               .code = engine::base::Code::policy_denied};
  const std::string text = verdict_response(verdict, "code \"x\"");
  EXPECT_TRUE(text.starts_with("HTTP/1.1 403 "));
  EXPECT_NE(text.find("retry=no"), std::string::npos);
  EXPECT_NE(text.find("do not retry"), std::string::npos);
  EXPECT_EQ(text.find("\r\nX: y"), std::string::npos);
  verdict.allowed = true;
  verdict.code = engine::base::Code::connect_failed;
  EXPECT_TRUE(verdict_response(verdict, "").starts_with("HTTP/1.1 502 "));
}

}  // namespace
}  // namespace sandglass::sandbox_runtime::egress
