// Reading of files from beginning to end, decompressed while they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace hexad::data {

/// Maximum bytes of one document, of one line of JSON, and of a .json file. Each of these must be in memory as a whole.
/// This limit bounds the memory that a compressed file can occupy.
inline constexpr int64_t largest_document = int64_t{256} << 20;

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills `out` with the next bytes of the contents, and returns their number. The number is less than `bytes` only at
  /// the end of the contents. Throws Error(data) if the file is unreadable, damaged or truncated, or if its
  /// decompression needs more than 128 MiB of memory. The error names the file and the problem.
  virtual size_t read(char* out, size_t bytes) = 0;
  /// Returns the number of bytes of the file that have been consumed so far; compressed bytes if the file is
  /// compressed.
  virtual int64_t position() const = 0;
};

/// Opens a file. Contents are decompressed if the name ends in .gz (gzip, also of several members) or .zst (zstd).
/// Throws Error(data) if the file cannot be opened.
std::unique_ptr<ByteStream> open_stream(const std::string& path);

/// Returns `path` without a final .gz or .zst, in upper or lower case.
std::string_view without_compression(std::string_view path);

/// Returns the first `bytes` bytes of the contents, or the whole contents if they are shorter.
std::string head_of(ByteStream& stream, size_t bytes);

/// Calls f with the contents in blocks of 1 MiB, the last of which may be shorter or empty. Stops early if `f` returns
/// false. An empty file is one empty block.
void for_each_block(ByteStream& stream, const std::function<bool(std::string_view block)>& f);

}  // namespace hexad::data
