// Output of `hexad plan` for growing sequence lengths, and for recipes that do not fit.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tools/plan/context_expansion.h"
#include "tools/plan/expansion_path.h"

namespace hexad::app {

/// Returns a text with the memory that a recipe lacks, and the nearest layouts that fit: "the least memory found is
/// 140 GiB per rank, 65 GiB more than ...".
std::string shortfall_text(const plan::PlanAt& plan_at, const plan::Shortfall& shortfall, int64_t ranks_per_node);

/// Prints a row for each sequence length. The line below a row shows the axes that changed since the previous length.
/// If a length does not fit, its row shows only the missing memory. The first point of `path` must have a layout.
void print_path(const plan::PlanAt& plan_at, std::span<const plan::PathPoint> path, int64_t ranks_per_node);

/// Returns the content of print_path() as a JSON object. The first point must have a layout.
nlohmann::ordered_json path_json(const plan::PlanAt& plan_at, std::span<const plan::PathPoint> path,
                                 int64_t ranks_per_node);

}  // namespace hexad::app
