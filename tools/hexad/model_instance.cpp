#include "tools/hexad/model_instance.h"

#include "framework/data/source.h"

namespace hexad::app {

ModelInstance::ModelInstance(const Recipe& recipe, const Registry& registry, const comm::ProcessGroup& world)
    : context({.memory_limit = recipe.memory.limit_bytes,
               .worker_lanes = recipe.schedule.worker_lanes,
               .offload_folder = recipe.offload.folder}),
      mesh(world, {.dp = world.size(), .ep = static_cast<int>(recipe.parallel.ep)}),
      parameters(context),
      model(recipe.model, registry, Builder(parameters, states, mesh, dtype_of(recipe.train.precision))) {
  for (const auto& p : parameters) p->initialize(recipe.train.seed);
}

MicroBatch make_micro_batch(const data::Batch& batch, int64_t first_sequence, int64_t valid_sequences, Device device) {
  const Shape shape{batch.count * batch.context};
  const auto tensor = [&](const std::vector<int32_t>& values) {
    return Tensor::from<int32_t>(values, shape, device, Category::activation);
  };
  MicroBatch out{.sequences = batch.count,
                 .length = batch.context,
                 .ids = tensor(batch.ids),
                 .positions = tensor(batch.positions),
                 .targets = tensor(batch.targets),
                 .first = tensor(batch.first),
                 .last = tensor(batch.last),
                 .valid = {},
                 .first_token = first_sequence * batch.context};
  if (valid_sequences < batch.count) {
    const int64_t valid_tokens = valid_sequences * batch.context;
    std::vector<uint8_t> valid(static_cast<size_t>(shape.numel()), 0);
    std::fill_n(valid.begin(), valid_tokens, uint8_t{1});
    out.valid = Tensor::from<uint8_t>(valid, shape, device, Category::activation);
    std::fill(out.targets.data<int32_t>() + valid_tokens, out.targets.data<int32_t>() + shape.numel(), data::ignored);
  }
  return out;
}

}  // namespace hexad::app
