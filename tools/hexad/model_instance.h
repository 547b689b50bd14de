// A model on this rank, with all it needs to run.
#pragma once

#include <memory>

#include "layers/transformer.h"
#include "tools/hexad/recipe.h"

namespace hexad::app {

using namespace layers;

/// Memory, mesh, parameters and layers, built from a recipe. Initial weights are drawn from the recipe's seed.
struct ModelInstance {
  ModelInstance(const Recipe& recipe, const Registry& registry, const comm::ProcessGroup& world);

  device::DeviceContext context;
  mesh::Mesh mesh;
  ParameterSet parameters;
  StateSet states;
  Transformer model;

  Device device() { return context; }
};

/// Copies a data::Batch into tensors. `valid_sequences` < batch.count marks the rest as padding: no targets, no
/// experts.
MicroBatch make_micro_batch(const data::Batch& batch, int64_t first_sequence, int64_t valid_sequences, Device device);

}  // namespace hexad::app
