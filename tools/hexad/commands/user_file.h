// Files that a command writes where its user says.
#pragma once

#include <string>
#include <string_view>

namespace hexad::app {

/// A command may replace what it wrote before, which it can make again, and nothing else. Throws Error(usage) when
/// `path` is a regular file that does not begin with `beginning`, as every `kind` that the command writes does.
void require_replaceable(const std::string& path, std::string_view beginning, std::string_view kind);

}  // namespace hexad::app
