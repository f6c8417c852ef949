// The library marks its plain functions as deprecated; the ones it recommends load a provider at run time,
// which costs more than everything else that init does before its first command.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "sandbox-runtime/init/content_hash.h"

#include <openssl/sha.h>

namespace sandglass::sandbox_runtime::init {

static_assert(sizeof(SHA256_CTX) <= 128);

namespace {
SHA256_CTX* context(unsigned char* raw) {
  return reinterpret_cast<SHA256_CTX*>(raw);
}
}  // namespace

ContentHash::ContentHash() {
  restart();
}

void ContentHash::restart() {
  SHA256_Init(context(context_));
}

void ContentHash::update(std::string_view data) {
  SHA256_Update(context(context_), data.data(), data.size());
}

frames::Digest ContentHash::finish() {
  frames::Digest digest;
  SHA256_Final(digest.data(), context(context_));
  restart();
  return digest;
}

}  // namespace sandglass::sandbox_runtime::init
