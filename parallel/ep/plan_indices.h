// The device's half of a routing plan: which row is which.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::ep {

using tensor::Tensor;

/// Indices of the R rows that arrive in a chunk and of the C rows that are computed; M slots a row.
struct ChunkIndices {
  Tensor offsets;  // [E/P + 1] i64: grouped rows of each local expert; undefined: the host knows them
  Tensor place;    // [C] i64: grouped row to which each row that is computed is copied; undefined: its own
  // Rows of tokens; undefined where a row is a slot's:
  Tensor source;   // [C] i64: row that is there of which each row computed is a copy, ...
  Tensor entry;    // [C] i64: ... and which of the [R, M] slots of those rows it stands for
  Tensor reduced;  // [R, M] i64: grouped rows that add up to what each row returns; -1: no more

  bool of_tokens() const { return source.defined(); }
};

/// T tokens of K slots, S slot rows of M slots each, W rows to send.
struct PlanIndices {
  Tensor rows;         // [T, K] i64: slot row of each slot; -1: dropped, or an earlier slot of the token has it
  Tensor row_slots;    // [S, M] i64: slots t K + k of each slot row, in order; -1: no more; undefined in a local plan
  Tensor wire_slots;   // [W] i64: slot row of each row to send; undefined: its own
  Tensor wire_tokens;  // [W] i64: token of each row to send
  Tensor copies;       // [S, etp] i64: rows to send of each slot row, counted within its chunk; undefined: its own
  std::vector<ChunkIndices> chunks;
};

}  // namespace hexad::ep
