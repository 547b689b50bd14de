// Parser from text to a tree: the strict subset of YAML that recipes use.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "framework/config/document.h"

namespace hexad::config {

/// Form of printed positions: a file has lines, a command-line value is named as a whole.
enum class SourceKind : uint8_t { file, command_line };

/// Parses one document of any kind (map, list, scalar; null if `text` is empty). Subtracts its cost from `budget`.
/// Throws Error(usage) with the position; load() lists the causes.
Node parse_yaml(std::string_view text, const std::shared_ptr<const std::string>& source, SourceKind kind,
                Budget& budget);

/// Throws Error(usage), naming `source`, if `text` has invalid UTF-8 or control characters.
void require_plain_text(std::string_view text, const std::string& source);

}  // namespace hexad::config
