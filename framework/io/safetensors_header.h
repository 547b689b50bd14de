// Parsing and checking of safetensors headers, without access to the file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/safetensors.h"

namespace hexad::io {

/// Bytes of the length before the header, and the maximum bytes of the header itself according to the format.
inline constexpr int64_t length_bytes = 8;
inline constexpr int64_t max_header_bytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by offset; without gaps or overlaps, they fill the file
  std::map<std::string, std::string> metadata;
};

/// Parses a header. `file_bytes` is the length of the whole file. Throws Error(data) that names `path` if the header is
/// wrong.
SafetensorsHeader parse_header(std::string_view header, int64_t file_bytes, const std::string& path);
std::string make_header(std::span<const TensorInfo> tensors, const std::map<std::string, std::string>& metadata);
/// Checks a header before it is written. Throws Error(resource) that names `path` if a reader would reject `header`
/// followed by `data_bytes` bytes of tensors.
void require_readable_header(std::string_view header, int64_t data_bytes, const std::string& path);

}  // namespace hexad::io
