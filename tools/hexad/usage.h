// Finds subcommands, explains errors on the command line, and checks values of options.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/hexad/command_line.h"

namespace hexad::app {

/// Returns the subcommand of `command` that the leading words of `words` name, or `command` itself if they name no
/// subcommand. Throws Error(usage) for an unknown command.
Command find_command(const Command& command, std::span<const std::string> words);

/// Returns a message that explains why `command` does not accept the argument `word`.
std::string explain_extra(const Command& command, const std::string& word);

// The functions below return descriptions of legal option values.

Legal whole_number(int64_t minimum, int64_t maximum = std::numeric_limits<int64_t>::max());
Legal zero_or_at_least(int64_t minimum);
/// Accepts finite numbers.
Legal number(double minimum, double maximum = std::numeric_limits<double>::infinity());
Legal number_above(double minimum);
Legal auto_or_step();
Legal one_of(std::vector<std::string_view> names);

}  // namespace hexad::app
