// A model on this rank, with all it needs to run.
#pragma once

#include <memory>

#include "layers/transformer.h"
#include "parallel/dp/weight_buckets.h"
#include "tools/hexad/recipe.h"

namespace hexad::app {

using namespace layers;

/// Memory, mesh, parameters and layers of this rank, built from a recipe. Initial weights are drawn from the recipe's
/// seed.
struct ModelInstance {
  ModelInstance(const Recipe& recipe, const Registry& registry, const comm::ProcessGroup& world);

  /// In all MoE layers, between steps; the same on all ranks.
  void reschedule(const moe::MoeSchedule& schedule);

  const Registry registry;
  device::DeviceContext context;
  mesh::Mesh mesh;
  ParameterSet parameters;
  StateSet states;
  Transformer model;
  dp::BucketPlan buckets;
  dp::WeightBuckets weights;

  Device device() { return context; }
};

/// Of `ranks` that share the sequences.
struct ContextRank {
  int ranks = 1, rank = 0;
};

/// Copies a rank's rows of a data::Batch into tensors. `valid_sequences` < batch.count marks the rest as padding: no
/// targets, no experts.
MicroBatch make_micro_batch(const data::Batch& batch, int64_t first_sequence, int64_t valid_sequences, Device device,
                            ContextRank context = {});

}  // namespace hexad::app
