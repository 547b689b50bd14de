// Reading, checking and making of safetensors headers.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/file.h"
#include "framework/io/safetensors.h"

namespace hexad::io {

/// Size in bytes of the length field before the header.
inline constexpr int64_t length_bytes = 8;
/// Maximum size in bytes of a header that readers accept.
inline constexpr int64_t max_header_bytes = 100'000'000;

/// Reads the header of a file, without the length field. Throws Error(data) that names the file if the length or the
/// first character is wrong.
std::string read_header_text(const data::ReadFile& file, const FileWork& work);

/// Name of a dtype in the format, and the bytes of one element.
struct StoredDtype {
  std::string_view name;
  int64_t bytes;
};

/// Header entry of one tensor. The dtype may be one that the program's tensors do not support, so files of other
/// programs can be read and written.
struct HeaderEntry {
  std::string name;
  StoredDtype dtype;
  Shape shape;
  int64_t begin, end;  // byte offsets from the start of the file
};

struct HeaderEntries {
  std::vector<HeaderEntry> tensors;  // sorted by offset; they fill the rest of the file without gaps or overlaps
  std::map<std::string, std::string> metadata;
};

/// Parses a header whose tensors have dtypes among `dtypes`. `file_bytes` is the length of the whole file. Throws
/// Error(data) that names `path` if the header is wrong.
HeaderEntries parse_entries(std::string_view header, int64_t file_bytes, std::span<const StoredDtype> dtypes,
                            const std::string& path);

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by offset; they fill the rest of the file without gaps or overlaps
  std::map<std::string, std::string> metadata;
};

/// Like parse_entries(), for the dtypes of this program.
SafetensorsHeader parse_header(std::string_view header, int64_t file_bytes, const std::string& path);
std::string make_header(std::span<const HeaderEntry> tensors, const std::map<std::string, std::string>& metadata);
std::string make_header(std::span<const TensorInfo> tensors, const std::map<std::string, std::string>& metadata);
/// Checks a header before it is written. Throws Error(resource) that names `path` if a reader would reject `header`
/// followed by `data_bytes` bytes of tensors.
void require_readable_header(std::string_view header, int64_t data_bytes, const std::string& path);

}  // namespace hexad::io
