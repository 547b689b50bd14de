// Loads of experts from a file.
#pragma once

#include <string>
#include <vector>

#include "layers/base/model_config.h"

namespace hexad::plan {

/// Share of each expert in the slots of its layer: one row for each MoE layer, in order. Each row sums to 1.
using ExpertShares = std::vector<std::vector<double>>;

/// Reads the loads of `model`'s experts from a text file, or from a metrics.jsonl at the last step with expert_load. A
/// text file has one line for each MoE layer, in order, or a single line for all MoE layers. A line has a number of
/// tokens or a share for each expert, separated by blanks or commas. A # begins a comment. Throws Error(usage) with
/// file and line of the first mistake.
ExpertShares read_expert_shares(const std::string& path, const layers::ModelConfig& model);

}  // namespace hexad::plan
