#include "tools/interop/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "framework/base/dtype.h"

namespace hexad::interop {

namespace {

struct ElementNames {
  Element element;
  std::string_view stored, config;
};
constexpr std::array<ElementNames, 3> known_elements{
    {{Element::f32, "F32", "float32"}, {Element::bf16, "BF16", "bfloat16"}, {Element::f16, "F16", "float16"}}};

const ElementNames& element_names(Element element) { return known_elements[base::ordinal(element)]; }

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float to_float(const std::byte* from, Element type) {
  switch (type) {
    case Element::f32:
      return load<float>(from);
    case Element::bf16:
      return static_cast<float>(load<base::bf16>(from));
    case Element::f16:
      return from_half(load<uint16_t>(from));
  }
  return 0;
}

void from_float(std::byte* to, Element type, float value) {
  if (type == Element::f32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const uint16_t bits = type == Element::bf16 ? base::bf16(value).bits : to_half(value);
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace

io::StoredDtype stored(Element element) { return {element_names(element).stored, bytes_of(element)}; }

std::optional<Element> element_of(std::string_view stored_name) {
  for (const ElementNames& n : known_elements)
    if (n.stored == stored_name) return n.element;
  return std::nullopt;
}

std::string_view config_name(Element element) { return element_names(element).config; }

float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent > 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude >= 0x38800000u) {  // normal numbers: 13 bits of the fraction are dropped
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  // Adding 0.5 gives a float whose last bit has the value 2^-24, like the last bit of a subnormal f16. The processor
  // therefore rounds correctly.
  const float sum = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
}

void convert(std::byte* to, Element to_type, const std::byte* from, Element from_type, int64_t count) {
  if (to_type == from_type) {
    if (to != from) std::memcpy(to, from, count * bytes_of(to_type));
    return;
  }
  const int64_t to_bytes = bytes_of(to_type), from_bytes = bytes_of(from_type);
  for (int64_t i = 0; i < count; ++i)
    from_float(to + i * to_bytes, to_type, to_float(from + i * from_bytes, from_type));
}

int64_t first_non_finite(const std::byte* elements, Element type, int64_t count) {
  // An element is NaN or infinite if all bits of its exponent are 1, which is the largest possible exponent.
  const uint32_t largest = type == Element::f32 ? 0x7f800000u : type == Element::bf16 ? 0x7f80u : 0x7c00u;
  const auto find = [&]<class T>(T exponent) -> int64_t {
    constexpr int64_t block = 4096;  // number of elements checked between two branches
    const auto exponent_of = [&](int64_t i) {
      return static_cast<T>(load<T>(elements + i * static_cast<int64_t>(sizeof(T))) & exponent);
    };
    for (int64_t begin = 0; begin < count; begin += block) {
      const int64_t end = std::min(begin + block, count);
      T found = 0;
      for (int64_t i = begin; i < end; ++i) found = std::max(found, exponent_of(i));
      for (int64_t i = begin; found == exponent && i < end; ++i)
        if (exponent_of(i) == exponent) return i;
    }
    return -1;
  };
  return type == Element::f32 ? find(largest) : find(static_cast<uint16_t>(largest));
}

void transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t columns, int64_t bytes) {
  // Number of rows and of columns of a tile, small enough that source and destination fit into the cache.
  constexpr int64_t block = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += block)
    for (int64_t c0 = 0; c0 < columns; c0 += block)
      for (int64_t r = r0; r < std::min(r0 + block, rows); ++r)
        for (int64_t c = c0; c < std::min(c0 + block, columns); ++c)
          std::memcpy(to + (c * rows + r) * bytes, from + (r * columns + c) * bytes, bytes);
}

void separate_interleaved(std::byte* to, const std::byte* from, int64_t half, int64_t row_bytes) {
  for (int64_t i = 0; i < 2 * half; ++i)
    std::memcpy(to + (i % 2 * half + i / 2) * row_bytes, from + i * row_bytes, row_bytes);
}

void interleave(std::byte* to, const std::byte* from, int64_t half, int64_t row_bytes) {
  for (int64_t i = 0; i < 2 * half; ++i)
    std::memcpy(to + i * row_bytes, from + (i % 2 * half + i / 2) * row_bytes, row_bytes);
}

}  // namespace hexad::interop
