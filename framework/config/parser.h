// From text to a tree: the strict subset of YAML that recipes use.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "framework/config/document.h"

namespace hexad::config {

/// Form of printed positions: a file has lines, a command-line value is named as a whole.
enum class SourceKind : uint8_t { file, command_line };

/// Parses one document of any kind (map, list, scalar; null when `text` is empty). Takes what it used from `budget`.
/// Throws Error(usage) naming the position; see load() for what is refused.
Node parse_yaml(std::string_view text, const std::shared_ptr<const std::string>& source, SourceKind kind,
                Budget& budget);

/// Throws Error(usage), naming `source`, for bytes that are no UTF-8 and for control characters.
void require_plain_text(std::string_view text, const std::string& source);

}  // namespace hexad::config
