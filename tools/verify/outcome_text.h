// Requests and outcomes of runs as text, for the pipes to and from a child process and for the user.
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

/// Returns the table's head: "mesh   options   steps tensors elements   worst   where".
std::string table_head();
/// Returns one line with the largest difference of a run that agrees, or the first mismatch of a run that does not.
std::string table_row(const Outcome& outcome);
/// Explains a failure with values, in a few lines.
std::string explanation(const Outcome& outcome);

}  // namespace hexad::verify
