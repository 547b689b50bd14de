// Converts requests and outcomes of runs to text, for child processes and for the user.
#pragma once

#include <string>

#include "tools/verify/run_variant.h"

namespace hexad::verify {

/// Returns the request for one layout: ranks, a blank, and the layout.
std::string request_of(const Variant& variant);
/// Returns the layout of a request.
Variant variant_of(const std::string& request);

/// Returns one line of JSON, which outcome_from_json() reads.
std::string text_of(const Outcome& outcome);
/// Reads an outcome. Throws std::exception if the text is not an outcome.
Outcome outcome_from_json(const std::string& text, const Variant& variant);

/// Returns the heading of the table: "mesh   options   steps tensors elements   worst   where".
std::string table_head();
/// Returns one line of the table. The line shows the largest difference if the run agrees, otherwise the error, the
/// first mismatch, or the text "nothing was compared".
std::string table_row(const Outcome& outcome);
/// Returns a few lines that explain a failure, with the values that differ.
std::string explanation(const Outcome& outcome);

}  // namespace hexad::verify
