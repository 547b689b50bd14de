// Messages after a mistake on the command line.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/hexad/command_line.h"

namespace hexad::app {

/// The command that `words` begin with: `command` itself when they name none. Throws Error(usage) for an unknown one.
Command find_command(const Command& command, std::span<const std::string> words);

/// Explains what is wrong with `word`, which `command` does not take.
std::string explain_extra(const Command& command, const std::string& word);

// Values of options.

Legal whole_number(int64_t minimum, int64_t maximum = std::numeric_limits<int64_t>::max());
Legal zero_or_at_least(int64_t minimum);
/// Finite.
Legal number(double minimum, double maximum = std::numeric_limits<double>::infinity());
Legal number_above(double minimum);
Legal auto_or_step();
Legal one_of(std::vector<std::string_view> names);

}  // namespace hexad::app
