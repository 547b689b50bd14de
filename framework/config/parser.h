// Parser that converts text to a tree. It accepts the strict subset of YAML that recipes use.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "framework/config/document.h"

namespace hexad::config {

/// Source of a document. Positions in a file are printed with a line, and positions on the command line without one.
enum class SourceKind : uint8_t { file, command_line };

/// Parses one document of any kind (map, list or scalar; null if `text` is empty). Subtracts its cost from `budget`.
/// Throws Error(usage) with the position, for the reasons that load() lists.
Node parse_yaml(std::string_view text, const std::shared_ptr<const std::string>& source, SourceKind kind,
                Budget& budget);

/// Throws Error(usage) that names `source` if `text` contains invalid UTF-8 or control characters.
void require_plain_text(std::string_view text, const std::string& source);

}  // namespace hexad::config
