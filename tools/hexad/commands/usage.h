// What a person reads after a mistake on the command line.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace hexad::app {

/// The command that `words` begin with: `app` itself when they name none. Throws Error(usage) for an unknown one.
const CLI::App& find_command(const CLI::App& app, std::span<const std::string> words);

/// "--help" and the like.
std::vector<std::string> option_names(const CLI::App& command);
/// Whether key.path=value may follow.
bool takes_overrides(const CLI::App& command);

/// `error`, met while reading the arguments of `command`, with what was expected.
std::string explain(const CLI::App& command, const CLI::ParseError& error);

// Legal values of options. Their messages say what was given and what is expected.

CLI::Validator whole_number(int64_t minimum, int64_t maximum = std::numeric_limits<int64_t>::max());
/// Finite.
CLI::Validator number(double minimum, double maximum = std::numeric_limits<double>::infinity());
CLI::Validator number_above(double minimum);
CLI::Validator auto_or_step();
CLI::Validator one_of(std::vector<std::string_view> names);

}  // namespace hexad::app
