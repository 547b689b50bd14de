// Routing weights on a rank that has all experts of its tokens. These experts multiply their activations by the weights
// (SonicMoE, Guo et al. 2025, arXiv 2512.14080). Let W be the matrix of the product `down`, w a routing weight, and a
// the activation. Up to rounding, W (w a) = w (W a), so the results are already weighted. Backward then needs no
// results, because the gradient of w is the dot product of `a` and the gradient of `w a`. Experts on several ranks do
// not multiply by weights, because every row would have to be sent with its weight.
#pragma once

#include "layers/moe/routes/routes.h"

namespace hexad::moe {

/// True if the experts multiply their activations by the routing weights. This requires that the rank has all experts,
/// that the schedule has rows: slot and wire: model, and that Experts::can_weight() is true. The answer is the same for
/// all schedules with these two values, so the results of these schedules are bitwise identical.
bool experts_apply_weights(const Routes& routes, const Experts& experts);

/// Returns the weights [S] of the computed rows, taken from the weights [T, K] of the routing plan's tokens. The
/// returned weights are in the order of the grouped rows. Rows are grouped over all chunks if chunks are computed
/// together, and otherwise in each chunk in turn. Weights of dropped slots are left out.
Tensor weights_of_computed(Stream& s, const Routes& routes, const Tensor& weights);
/// Returns the part of `computed` [S] that belongs to chunk `chunk`, or all of it if chunks are computed together.
/// Returns an undefined tensor if `computed` is undefined.
Tensor part_of_computation(const Routes& routes, const Tensor& computed, size_t chunk);
/// Inverse of weights_of_computed(): writes the numbers `computed` [S] to the slots of the computed rows in `out` [T,
/// K]. Entries of dropped slots do not change.
void scatter_weights_to_slots(Stream& s, const Tensor& out, const Routes& routes, const Tensor& computed);

}  // namespace hexad::moe
