// Outcomes of runs as text: for the pipe from a child process, and for people.
#pragma once

#include <string>

#include "tools/verify/run_variant.h"

namespace hexad::verify {

/// One line of JSON, read by outcome_from_json().
std::string text_of(const Outcome& outcome);
/// Throws std::exception for anything else.
Outcome outcome_from_json(const std::string& text, const Variant& variant);

/// "mesh   options   worst   where   step"
std::string table_head();
/// One line. A run that agrees shows where it was furthest off, one that does not what went wrong first.
std::string table_row(const Outcome& outcome);
/// Explains what went wrong, with values, in a few lines.
std::string explanation(const Outcome& outcome);

}  // namespace hexad::verify
