// Parsing and checking of a safetensors header. It is separate from the file, so that tests need only text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/safetensors.h"

namespace hexad::io {

/// Length of the u64 before the header, and the format's limit for the header itself.
inline constexpr int64_t length_bytes = 8;
inline constexpr int64_t max_header_bytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // by offset, without gaps or overlap, filling the file
  std::map<std::string, std::string> metadata;
};

/// Parses a header. `file_bytes` is the length of the whole file. Throws Error(data) naming `path`.
SafetensorsHeader parse_header(std::string_view header, int64_t file_bytes, const std::string& path);
std::string make_header(std::span<const TensorInfo> tensors, const std::map<std::string, std::string>& metadata);
/// Checks a header before the writer writes it. Throws Error(resource) naming `path` if a reader would reject `header`
/// followed by `data_bytes` of tensors.
void require_readable_header(std::string_view header, int64_t data_bytes, const std::string& path);

}  // namespace hexad::io
