// Files that are known to be no text by how they begin, whatever they are called.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hexad::data {

/// Bytes of a file's beginning that binary_kind() looks at.
inline constexpr size_t binary_head_bytes = 512;

struct BinaryKind {
  std::string_view name;    // "gzip-compressed file"; empty: none that is known
  std::string_view remedy;  // what makes text of it, such as "gunzip"; empty: it holds none

  explicit operator bool() const { return !name.empty(); }
  /// "a PNG image", "an ELF program".
  std::string with_article() const;
};

/// `head` is the beginning of a file: all of it, or at least binary_head_bytes.
BinaryKind binary_kind(std::string_view head);

}  // namespace hexad::data
