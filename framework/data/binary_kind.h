// Detection of binary files by their first bytes, whatever their names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hexad::data {

/// Number of bytes at the start of a file that binary_kind() examines.
inline constexpr size_t binary_head_bytes = 512;

struct BinaryKind {
  std::string_view name;    // for example "gzip-compressed file"; empty: no known kind of binary file
  std::string_view remedy;  // command or format that gives text, such as "gunzip"; empty: files of this kind contain no
                            // text

  explicit operator bool() const { return !name.empty(); }
  /// Returns the name with its article, for example "a PNG image" or "an ELF program".
  std::string with_article() const;
};

/// Returns the kind of a file that begins with `head`. `head` must be the whole file or at least binary_head_bytes of
/// it.
BinaryKind binary_kind(std::string_view head);

}  // namespace hexad::data
