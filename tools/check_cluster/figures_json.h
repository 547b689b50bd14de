// Figures and findings as JSON, for messages between ranks and for --json.
#pragma once

#include <string>
#include <vector>

#include "tools/check_cluster/findings.h"

namespace hexad::check_cluster {

/// Returns the report of one rank as a JSON object.
std::string to_json(const RankReport& report);
/// Parses the result of to_json().
RankReport report_from_json(const std::string& text);

/// Returns the object that `hexad check-cluster --json` prints: {"exit_code", "findings", "ranks"}. "ranks" is empty if
/// nothing was measured.
std::string results_json(const std::vector<RankReport>& ranks, const std::vector<Finding>& findings);

}  // namespace hexad::check_cluster
