// Loads of experts, read from a file.
#pragma once

#include <string>
#include <vector>

#include "layers/base/model_config.h"

namespace hexad::plan {

/// Share of a layer's slots that each expert gets. There is one row for each MoE layer, in order. Each row sums to 1.
using ExpertShares = std::vector<std::vector<double>>;

/// Reads the loads of `model`'s experts from a text file, or from a metrics.jsonl. From a metrics.jsonl, uses the last
/// step that has expert_load, which must have a row for each MoE layer. A text file has one line for each MoE layer, in
/// order, or a single line for all MoE layers. Each line has a number of tokens or a share for each expert, separated
/// by blanks or commas. A # begins a comment. Throws Error(usage) at the first mistake. The error states the line of a
/// mistake inside the file.
ExpertShares read_expert_shares(const std::string& path, const layers::ModelConfig& model);

}  // namespace hexad::plan
