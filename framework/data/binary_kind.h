// Detection of binary files by their first bytes, regardless of their names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hexad::data {

/// Number of leading bytes that binary_kind() examines.
inline constexpr size_t binary_head_bytes = 512;

struct BinaryKind {
  std::string_view name;    // "gzip-compressed file"; empty: no known binary kind
  std::string_view remedy;  // a command or format that gives text, such as "gunzip"; empty: the file has no text

  explicit operator bool() const { return !name.empty(); }
  /// Returns the name with its article: "a PNG image", "an ELF program".
  std::string with_article() const;
};

/// Returns the kind of a file that begins with `head`: the whole file, or at least binary_head_bytes of it.
BinaryKind binary_kind(std::string_view head);

}  // namespace hexad::data
