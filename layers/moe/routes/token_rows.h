// Rows that belong to tokens (`rows: token`, EPS-MoE). A token's row is sent once to each rank that has any of the
// token's experts. The rank copies the row for each of these experts, and returns one sum of their results.
#pragma once

#include "layers/moe/routes/row_format.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

/// Copies the token rows `arrived`, with their row weights (if any), to their positions in `grouped`, one copy per
/// slot. Each copy gets the weights of its slot.
void copy_to_groups(Stream& s, const Rows& arrived, const ep::ChunkIndices& chunk, const Rows& grouped);
/// Returns, for each row that returns in the chunk, the sum of the results of its copies (EPS-MoE's LocalReduce). Each
/// result is multiplied by its weight in `weights` [R, M]; undefined: not multiplied. Also returns the row weights of
/// the copies, padded with 0 for rows with fewer than M slots. `results` and `weights` contain the rows of all chunks
/// if rows are joined.
Rows reduce_groups(Stream& s, const Rows& results, const ep::ChunkIndices& chunk, const Tensor& weights);

/// Returns the weights [W, M] of the slots of each row to send, taken from the weights [T, K] of the routing plan's
/// tokens. Entries beyond a row's slots are 0.
Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights);

/// Writes row weights to their slots: out[row_slots[r, m]] = row_weights[r, m]. `row_slots` [R, M] is
/// RoutingIndices::row_slots or a part of it. `row_weights` [R, M] are the weights that returned with the rows. `out`
/// is [T, K].
void scatter_by_slot(Stream& s, const Tensor& out, const Tensor& row_weights, const Tensor& row_slots);

}  // namespace hexad::moe
