// Parser that converts YAML text to a tree of nodes. It accepts the strict subset of YAML that recipes use.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "framework/config/document.h"

namespace hexad::config {

/// Kind of a document's source. Positions in a file are printed with a line, and positions on the command line without
/// a line.
enum class SourceKind : uint8_t { file, command_line };

/// Parses one document of any kind (map, list or scalar; null if `text` has no value). Subtracts the bytes and nodes of
/// the document from `budget`. Throws Error(usage) with the position if the text has one of the errors that load()
/// lists.
Node parse_yaml(std::string_view text, const std::shared_ptr<const std::string>& source, SourceKind kind,
                Budget& budget);

/// Throws Error(usage) that names `source` if `text` contains invalid UTF-8, or control characters other than tabs and
/// line ends.
void require_plain_text(std::string_view text, const std::string& source);

}  // namespace hexad::config
