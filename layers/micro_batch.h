// What a forward pass knows besides the activations.
#pragma once

#include <vector>

#include "framework/autograd/ops/ops.h"

namespace hexad::layers {

using namespace autograd;

/// What one MoE layer observed over the micro-batches since reset().
struct RouterStatistics {
  std::vector<int64_t> counts;  // tokens that chose each expert, before drops; padding excluded
  int64_t assignments = 0, dropped = 0;
  double aux_loss = 0, z_loss = 0;  // sums over micro-batches of the unweighted losses

  void reset() {
    counts.assign(counts.size(), 0);
    assignments = dropped = 0;
    aux_loss = z_loss = 0;
  }
};

/// Keys and values of the tokens generated so far, one entry a layer; [context, G, C] each.
struct KeyValueCache {
  struct Layer {
    Tensor keys, values;
  };
  std::vector<Layer> layers;
  int64_t length = 0;  // tokens whose keys and values are there
};

/// A micro-batch: `sequences` rows of `length` tokens, T = sequences * length. Index tensors are i32 [T].
struct MicroBatch {
  int64_t sequences = 0, length = 0;
  Tensor ids, positions;
  Tensor targets;           // -1: not predicted
  Tensor first, last;       // document of each token within its sequence; undefined: the whole sequence
  Tensor valid;             // u8 [T]: 0 for padding; undefined: no padding
  int64_t first_token = 0;  // global index of token 0: keys random choices

  int64_t tokens() const { return sequences * length; }
};

/// How a forward pass is run. One object a pass; layers find in it what they must report and where.
struct Pass {
  const MicroBatch& batch;
  uint64_t seed = 0;
  uint64_t step = 0;
  /// Indexed by MoE layer; empty in evaluation. Written once a micro-batch, never by a recomputation.
  std::vector<RouterStatistics>* statistics = nullptr;
  KeyValueCache* cache = nullptr;  // generation; appended to
};

}  // namespace hexad::layers
