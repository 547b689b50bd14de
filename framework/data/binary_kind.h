// Detection of binary files by their first bytes. File names are ignored.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hexad::data {

/// Number of bytes at the start of a file that binary_kind() examines.
inline constexpr size_t binary_head_bytes = 512;

struct BinaryKind {
  std::string_view name;    // kind, such as "gzip-compressed file"; empty: not a known binary kind
  std::string_view remedy;  // way to extract the text, such as "gunzip" or "save as text"; empty: unknown

  explicit operator bool() const { return !name.empty(); }
  /// Returns the name with its article, for example "a PNG image" or "an ELF program".
  std::string with_article() const;
};

/// Returns the kind of a file that begins with `head`. `head` must be the whole file or at least its first
/// binary_head_bytes bytes.
BinaryKind binary_kind(std::string_view head);

}  // namespace hexad::data
