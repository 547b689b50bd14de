// Messages about mistakes on the command line.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/hexad/command_line.h"

namespace hexad::app {

/// Returns the command with which `words` begin; `command` itself if they name none. Throws Error(usage) for an unknown
/// command.
Command find_command(const Command& command, std::span<const std::string> words);

/// Explains the mistake in `word`, which `command` does not accept.
std::string explain_extra(const Command& command, const std::string& word);

// The functions below make legal values of options.

Legal whole_number(int64_t minimum, int64_t maximum = std::numeric_limits<int64_t>::max());
Legal zero_or_at_least(int64_t minimum);
/// Accepts finite numbers.
Legal number(double minimum, double maximum = std::numeric_limits<double>::infinity());
Legal number_above(double minimum);
Legal auto_or_step();
Legal one_of(std::vector<std::string_view> names);

}  // namespace hexad::app
