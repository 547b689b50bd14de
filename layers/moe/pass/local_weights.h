// Routing weights on a rank that has all experts of its tokens. Its experts multiply their activations by the weights
// (SonicMoE, Guo et al. 2025, arXiv 2512.14080). Up to rounding, this multiplies the results: W (w a) = w (W a).
// Backward then needs no results, because the gradient of a weight w is the dot product of `a` and the gradient of `w
// a`. Experts on other ranks do not multiply by weights, because every row would have to be sent with its weight.
#pragma once

#include "layers/moe/pass/routes.h"

namespace hexad::moe {

/// True if the experts multiply their results by the routing weights. All schedules of a layer whose rows belong to
/// slots and are in the model's dtype give the same answer. Their results are therefore bitwise identical.
bool experts_weight(const Routes& routes, const Experts& experts);

/// Returns the weights [S] of the computed rows from the weights [T, K] of the plan's tokens: chunk after chunk, in the
/// order of the grouped rows. Rows of dropped slots have no weight.
Tensor weights_of_computed(Stream& s, const Routes& routes, const Tensor& weights);
/// Returns the part of a tensor [S] of the computed rows that belongs to chunk `chunk`, or all of it if chunks are
/// computed together. An undefined tensor stays undefined.
Tensor part_of_computation(const Routes& routes, const Tensor& computed, size_t chunk);
/// Writes numbers [S] of the computed rows to the slots of these rows in `out` [T, K]. Dropped slots do not change.
/// Inverse of weights_of_computed().
void take_slot_weights(Stream& s, const Tensor& out, const Routes& routes, const Tensor& computed);

}  // namespace hexad::moe
