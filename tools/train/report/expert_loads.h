// Loads of experts by block of the model, for metrics.
#pragma once

#include <vector>

#include "layers/base/model_config.h"
#include "layers/moe/router/router_statistics.h"

namespace hexad::train {

/// Returns the share of its layer's token-expert pairs that each expert has. There is one row for each block of
/// `model`, prediction blocks included; the row of a block without experts is empty. `routers` has the statistics of
/// all MoE layers of the model, in order. If it is empty, the table is empty.
std::vector<std::vector<double>> expert_loads(const layers::ModelConfig& model,
                                              const std::vector<layers::RouterStatistics>& routers);

}  // namespace hexad::train
