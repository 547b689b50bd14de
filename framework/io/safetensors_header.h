// Parsing and checking of a safetensors header; apart from the file, so that it can be tested with text alone.
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
  std::vector<TensorInfo> tensors;  // by offset, without holes or overlap, filling the file
  std::map<std::string, std::string> metadata;
};

/// `file_bytes` is the length of the whole file. Throws Error(data) naming `path`.
SafetensorsHeader parse_header(std::string_view header, int64_t file_bytes, const std::string& path);
std::string make_header(std::span<const TensorInfo> tensors, const std::map<std::string, std::string>& metadata);
/// For the writer, before it writes a byte: throws Error(resource) naming `path` when a reader would refuse `header`
/// before `data_bytes` of tensors.
void require_readable_header(std::string_view header, int64_t data_bytes, const std::string& path);

}  // namespace hexad::io
