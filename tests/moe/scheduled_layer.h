// MoE layer on the ranks of a mesh, under any schedule.
#pragma once

#include "layers/moe/moe_layer.h"
#include "layers/moe/router/router_statistics.h"
#include "tests/moe/names.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"

namespace hexad::tests {

using Words = std::vector<std::string>;

inline Words joined(const Words& a, const Words& b) {
  Words all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// MoE layer of 8 experts on one rank of a mesh, with 16 features by default.
class ScheduledLayer : public Lab {
 public:
  ScheduledLayer(const comm::ProcessGroup& world, const Words& overrides, Dtype layer_dtype = Dtype::f64)
      : Lab(default_seed, {.worker_lanes = true}),
        dtype(layer_dtype),
        recipe(small_recipe(joined({"model.moe.experts=8", "model.moe.expert_hidden=12"}, overrides))),
        mesh(world, recipe.parallel.sizes()),
        layer({.model = recipe.model,
               .layer = 0,
               .index = 0,
               .router = Registry().router_of(recipe.model),
               .schedule = recipe.schedule.moe.settled(),
               .order = Registry().moe_order_of(recipe.schedule.moe.settled())},
              Builder(parameters, states, mesh, dtype, {.sequence = recipe.parallel.sp}) / "moe"),
        statistics(1, 8, context) {
    for (const auto& p : parameters) p->initialize(default_seed);
  }

  // Results on the host, because they outlive the layer.
  struct Result {
    Tensor y, dx, aux_losses;
    std::vector<Tensor> gradients;
    RouterStatistics statistics;
    Tensor dy;
    std::vector<Tensor> addends, daddends;
  };
  // Runs forward and backward with `addends` random addends. Ranks of one dp coordinate draw the same tokens and
  // addends. Each tp rank takes its share of the tokens and addends under sequence parallelism.
  Result run(int64_t sequences = 3, int64_t length = 4, int addends = 0) {
    MicroBatch batch;
    batch.sequences = sequences, batch.length = length;
    restart(default_seed + static_cast<uint64_t>(mesh.coordinate(Axis::dp)));
    const auto draw = [&] {
      const Tensor all = randn({batch.tokens(), recipe.model.hidden}, dtype);
      if (!recipe.parallel.sp) return all;
      const int64_t share = batch.tokens() / mesh.size(Axis::tp), begin = share * mesh.coordinate(Axis::tp);
      return copy_of(all.slice(0, begin, begin + share));
    };
    const Tensor x = draw(), dy = draw();
    const auto policy = keep_policy();
    Tape tape(stream(), *policy);
    const Value in = tape.leaf(x);
    std::vector<Value> more;
    for (int i = 0; i < addends; ++i) more.push_back(tape.leaf(draw()));
    const auto out = layer(tape, in, {.batch = batch, .statistics = &statistics.layers}, more);
    const Tensor of_losses = dtype == Dtype::f64 ? values<double>({1.0}) : values<float>({1.0f});
    const Replay::Root roots[] = {{out.y, dy}, {out.aux_losses, of_losses}};
    statistics.read(stream());
    const auto kept = [](const Tensor& t) { return to_host(copy_of(t)); };
    Result result{kept(out.y.data), {}, kept(out.aux_losses.data), {}, statistics.layers[0], kept(dy), {}, {}};
    Replay replay(tape, roots);
    replay.run();
    result.dx = to_host(replay.take_gradient(in));
    for (const Value& addend : more) {
      result.addends.push_back(kept(addend.data));
      result.daddends.push_back(kept(replay.take_gradient(addend)));
    }
    for (const auto& p : parameters) result.gradients.push_back(kept(p->gradient_to_add(stream())));
    return result;
  }

  const Dtype dtype;
  Recipe recipe;
  mesh::Mesh mesh;
  StateSet states;
  moe::MoeLayer layer;
  ModelStatistics statistics;
};

}  // namespace hexad::tests
