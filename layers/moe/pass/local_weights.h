// Routing weights on a rank that has all experts of its tokens. Its experts multiply their activations by the weights
// (SonicMoE, Guo et al. 2025, arXiv 2512.14080). Up to rounding, this weights the results: W (w a) = w (W a). Backward
// needs no results then, because the gradient of a weight is the dot product of `a` and the gradient of `w a`. Experts
// on other ranks do not weight, because every row would have to be sent with its weight.
#pragma once

#include "layers/moe/pass/routes.h"

namespace hexad::moe {

/// True if the experts weight their results. The same for all schedules of a layer whose rows are of slots and in the
/// model's dtype, so that these schedules give the same bits.
bool experts_weight(const Routes& routes, const Experts& experts);

/// Returns the weights [S] of the computed rows from the weights [T, K] of the plan's tokens: chunk after chunk, in the
/// order of the grouped rows. Rows of dropped slots have no weight.
Tensor weights_of_computed(Stream& s, const Routes& routes, const Tensor& weights);
/// Returns the part of a tensor [S] of the computed rows that belongs to chunk `chunk`, or all of it if chunks are
/// computed together. An undefined tensor stays undefined.
Tensor part_of_computation(const Routes& routes, const Tensor& computed, size_t chunk);
/// Writes numbers [S] of the computed rows to their slots in `out` [T, K], the inverse of weights_of_computed().
/// Dropped slots do not change.
void take_slot_weights(Stream& s, const Tensor& out, const Routes& routes, const Tensor& computed);

}  // namespace hexad::moe
