// XXH3-128 digests. They identify datasets and tokenizers and detect damage, but do not protect against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace hexad::data {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Digest&) const = default;
  std::string to_string() const;  // returns 32 lower-case hexadecimal digits
};

std::ostream& operator<<(std::ostream& out, const Digest& digest);

Digest digest_of(std::string_view bytes);

/// Digest of bytes that arrive in pieces. The digest equals digest_of() of the concatenated pieces.
class StreamingDigest {
 public:
  StreamingDigest();
  ~StreamingDigest();
  StreamingDigest(const StreamingDigest&) = delete;
  StreamingDigest& operator=(const StreamingDigest&) = delete;

  void add(const void* bytes, size_t count);
  Digest value() const;

 private:
  XXH3_state_s* state_;
};

}  // namespace hexad::data
