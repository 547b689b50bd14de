#include "framework/base/philox.h"

namespace hexad::base {
namespace {

// The finaliser of SplitMix64. It distributes seed, purpose, name and step over the 128 bits of the key and the upper
// counter words.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

uint64_t stable_hash(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001b3ull;
  return h;
}

Philox::Philox(uint64_t seed, Purpose purpose, std::string_view name, uint64_t step) {
  const uint64_t key = mix(seed ^ mix(static_cast<uint64_t>(purpose)));
  const uint64_t high = mix(stable_hash(name) ^ mix(step));
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  high_ = {static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
}

std::array<uint32_t, 4> Philox::block(uint64_t index) const {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), high_[0], high_[1]}, key_);
}

uint32_t Philox::bits(uint64_t index) const { return block(index)[0]; }

float Philox::uniform(uint64_t index) const { return static_cast<float>(bits(index) >> 8) * 0x1p-24f; }

double Philox::uniform_double(uint64_t index) const {
  const auto b = block(index);
  return static_cast<double>(((uint64_t{b[1]} << 32) | b[0]) >> 11) * 0x1p-53;
}

uint64_t Philox::below(uint64_t index, uint64_t bound) const {
  const auto b = block(index);
  const uint64_t x = (uint64_t{b[1]} << 32) | b[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(x) * bound) >> 64);
}

}  // namespace hexad::base
