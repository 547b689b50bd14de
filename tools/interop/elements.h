// Conversion and rearrangement of the elements of tensors, as bytes in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "framework/io/safetensors_header.h"

namespace hexad::interop {

/// Element types of foreign weights.
enum class Element : uint8_t { f32, bf16, f16 };

/// Returns the safetensors dtype of an element type.
io::StoredDtype stored(Element element);
/// Returns the element type of a safetensors dtype, for example "BF16"; nullopt for other dtypes.
std::optional<Element> element_of(std::string_view stored_name);
/// Returns the name of the element type in a config.json, for example "bfloat16".
std::string_view config_name(Element element);
inline int64_t bytes_of(Element element) { return element == Element::f32 ? 4 : 2; }

float from_half(uint16_t bits);
/// Rounds to the nearest f16, ties to even. Values that are too large become infinite.
uint16_t to_half(float value);

/// Converts `count` elements of `from` and writes them to `to`. `to` and `from` may be the same memory if the types are
/// equal.
void convert(std::byte* to, Element to_type, const std::byte* from, Element from_type, int64_t count);
/// Returns the index of the first element that is NaN or infinite; -1 if there is none.
int64_t first_non_finite(const std::byte* elements, Element type, int64_t count);

/// Writes the transpose of the matrix `from` [rows, columns]. Each element has `bytes` bytes.
void transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t columns, int64_t bytes);

/// Reorders 2 * `half` rows of `row_bytes` bytes each: rows 2i and 2i + 1 become rows i and half + i.
void separate_interleaved(std::byte* to, const std::byte* from, int64_t half, int64_t row_bytes);
/// Inverse of separate_interleaved().
void interleave(std::byte* to, const std::byte* from, int64_t half, int64_t row_bytes);

}  // namespace hexad::interop
