// Loads of experts by block of the model, for metrics.
#pragma once

#include <vector>

#include "layers/base/model_config.h"
#include "layers/moe/router/router_statistics.h"

namespace hexad::train {

/// Returns, for each expert, its share of the token-expert pairs of its layer. The table has one row for each block of
/// `model`, including prediction blocks. The row of a block without experts is empty. `routers` has the statistics of
/// all MoE layers of the model, in order. If `routers` is empty, the table is empty.
std::vector<std::vector<double>> expert_loads(const layers::ModelConfig& model,
                                              const std::vector<layers::RouterStatistics>& routers);

}  // namespace hexad::train
