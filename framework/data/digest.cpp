#include "framework/data/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>
#include <ostream>

namespace hexad::data {

std::string Digest::to_string() const { return fmt::format("{:016x}{:016x}", high, low); }

std::ostream& operator<<(std::ostream& out, const Digest& digest) { return out << digest.to_string(); }

Digest digest_of(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

StreamingDigest::StreamingDigest() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_);
}

StreamingDigest::~StreamingDigest() { XXH3_freeState(state_); }

void StreamingDigest::add(const void* bytes, size_t count) { XXH3_128bits_update(state_, bytes, count); }

Digest StreamingDigest::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_);
  return {hash.high64, hash.low64};
}

}  // namespace hexad::data
