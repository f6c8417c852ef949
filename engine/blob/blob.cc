#include "engine/blob/blob.h"

namespace sandglass::engine::blob {
namespace {

constexpr std::size_t kPiece = 256 * 1024;

}  // namespace

std::unexpected<base::Error> missing(const core::PublicDigest& digest, std::string_view why) {
  return base::fail(base::Code::blob_missing, "blob " + digest.hash.hex() + " " + std::string(why) +
                                                  "; restore the folder 'blobs' from a backup");
}

base::Result<core::PublicDigest> BlobStore::put(std::string_view tenant, std::string_view bytes) {
  const auto writer = create(tenant);
  if (!writer) return std::unexpected(writer.error());
  if (const auto written = (*writer)->write(bytes); !written) return std::unexpected(written.error());
  return (*writer)->finish();
}

base::Result<std::string> BlobStore::get(std::string_view tenant, const core::PublicDigest& digest,
                                         std::size_t most) const {
  const auto reader = open(tenant, digest);
  if (!reader) return std::unexpected(reader.error());
  if ((*reader)->size() > most) {
    return base::fail(base::Code::invalid_argument,
                      "blob " + digest.hash.hex() + " has " + std::to_string((*reader)->size()) +
                          " bytes; at most " + std::to_string(most) + " are taken here: read it in pieces");
  }
  std::string bytes;
  bytes.reserve((*reader)->size());
  while (true) {
    const auto piece = (*reader)->read(kPiece);
    if (!piece) return std::unexpected(piece.error());
    if (piece->empty()) return bytes;
    bytes += *piece;
  }
}

}  // namespace sandglass::engine::blob
