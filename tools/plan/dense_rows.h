// Smallest load at which dense GEMMs of experts are faster than a grouped GEMM, as measured by `hexad profile`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/plan/cluster.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Threshold for schedule.moe.dense_rows if dense GEMMs are not faster at the largest measured load.
inline constexpr int64_t never_dense = int64_t{1} << 40;

/// Returns the smallest measured number of rows per expert at and above which dense GEMMs are faster. At these loads,
/// one call for each expert takes at least 2% less time than one call for all experts. Compares forward products. Uses
/// the measured shape whose weight is nearest to `inputs` x `outputs`, as a ratio. Returns `never_dense` if no number
/// has this property. Returns none if the cluster has no dense and grouped measurements of the same shape.
std::optional<int64_t> measured_dense_rows(const Cluster& cluster, Element element, int64_t inputs, int64_t outputs);

/// Replaces `schedule.moe.dense_rows: auto` by measured_dense_rows() of the cluster in schedule.profile, in every stage
/// with gemms: by_load or auto. The shape is that of a rank's shard of an expert's weight: hidden x expert_hidden /
/// etp. The key remains `auto` if there are no experts, no profile, or no dense and grouped measurements of the same
/// shape. The key also remains `auto` if gemms is auto and the threshold is never_dense, so that by_load is not tried.
/// Returns a line for the log with the measured thresholds. The line is empty if no key is open, or if no threshold was
/// measured.
std::string take_dense_rows(train::Recipe& recipe);

}  // namespace hexad::plan
