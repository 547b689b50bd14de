// Loads of experts from a file.
#pragma once

#include <string>
#include <vector>

#include "layers/base/model_config.h"

namespace hexad::plan {

/// Share of each expert in the slots of its layer: a row for each layer with experts, in order. Each row sums to 1.
using ExpertShares = std::vector<std::vector<double>>;

/// Reads the loads of `model`'s experts from a metrics.jsonl, at the last step that has expert_load, or from a text
/// file. The text has a line for each layer with experts, in order, or one line for all of them. A line has a number of
/// tokens, or a share, for each expert, separated by blanks or commas. A # begins a comment. Throws Error(usage) with
/// file and line of the first mistake.
ExpertShares read_expert_shares(const std::string& path, const layers::ModelConfig& model);

}  // namespace hexad::plan
