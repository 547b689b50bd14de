// Files that a command writes to a path given by the user.
#pragma once

#include <string>
#include <string_view>

namespace hexad::app {

/// Throws Error(usage) if `path` is a regular file that does not begin with `beginning`, as every `kind` that the
/// command writes does. Therefore, a command replaces only its own earlier output, which it can make again.
void require_replaceable(const std::string& path, std::string_view beginning, std::string_view kind);

}  // namespace hexad::app
