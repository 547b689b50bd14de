// Device part of a routing plan: indices of rows, slots and tokens.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::ep {

using tensor::Tensor;

/// Indices of a chunk with R arrived rows, each with at most M slots, and C computed rows. E is the number of experts,
/// and P the number of ep ranks.
struct ChunkIndices {
  Tensor offsets;  // [E/P + 1] i64: offsets of the grouped rows of each local expert; undefined if the host has them
  Tensor place;    // [C] i64: index of the grouped row to which row i is copied; undefined if row i is grouped row i
  Tensor runs;     // [3, N] i64: places of N runs of rows in windows (PermuteKernels::put); undefined if rows are sent
  // The three tensors below are defined only if rows belong to tokens.
  Tensor source;   // [C] i64: index of the arrived row from which each computed row is copied
  Tensor entry;    // [C] i64: index of the slot of each computed row among the [R, M] slots of the arrived rows
  Tensor reduced;  // [R, M] i64: indices of the grouped rows whose sum is returned for each arrived row; -1: none
  // `source` and `entry` are indices among the arrived rows of all chunks if rows are joined. `reduced` then has one
  // entry for each row that returns in the chunk, with indices among the grouped rows of all chunks.
  Tensor returned;  // i64: index of the arrived row of each row that returns in the chunk; undefined if not joined

  bool rows_are_tokens() const { return source.defined(); }
};

/// Indices for T tokens with K slots each, S slot rows with at most M slots each, and W rows to send.
struct RoutingIndices {
  // [T, K] i64: slot row of each slot; -1: dropped, or the row of an earlier slot of the token represents it.
  Tensor rows;
  // [S, M] i64: slots t * K + k of each slot row, in order, then -1; undefined in plans of make_local_routing_plan().
  Tensor row_slots;
  Tensor wire_slots;   // [W] i64: slot row of each row to send; undefined if row i sends slot row i
  Tensor wire_tokens;  // [W] i64: token of each row to send
  // i64, [S, etp] with EspExchange::direct, otherwise [S, 1]: rows that return for each slot row, as indices within the
  // chunk. Undefined if rows return in the order of the slot rows.
  Tensor copies;
  std::vector<ChunkIndices> chunks;
};

}  // namespace hexad::ep
