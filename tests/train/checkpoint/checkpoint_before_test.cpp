// Reading of older checkpoints, in which some of today's parameters were stored as several tensors
// (tests/golden/README.md).
#include <gtest/gtest.h>

#include <atomic>

#include "framework/base/tolerance.h"
#include "framework/data/synthetic_source.h"
#include "framework/io/checkpoint_writer.h"
#include "parallel/comm/self_group.h"
#include "tests/support/stack.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;
const std::string golden = HEXAD_SOURCE_DIR "/tests/golden/separate_gate_and_up";

Recipe golden_recipe(const ParallelConfig& parallel = {}) {
  Recipe r = load_recipe(config::load(golden + "/recipe.yaml"), Registry(), 0);
  r.parallel = parallel;
  r.distributed.bucket_bytes = 1;  // each parameter has its own bucket, so that ZeRO splits every parameter
  return r;
}

data::SyntheticSource tokens_of(const Recipe& r) { return {r.model.vocab, r.model.context, r.train.seed}; }

// Loss and norm that the older program printed for a step.
struct Step {
  double loss, norm;
};
constexpr Step steps[] = {{3.2058674353219603, 1.887352559835723},  {3.3499307070527737, 1.595035322632851},
                          {3.3532357201600456, 1.8609995972142146}, {3.1548321904615877, 1.304557515415994},
                          {3.1208013861832433, 1.367522311904777},  {3.160739730330036, 1.132124741583645}};
void expect_steps(TrainingRun& run, size_t first, size_t last) {
  const Recipe& recipe = run.recipe;
  // Relative tolerance of comparisons with the older program.
  const double rounding = step_tolerance(Dtype::f64, recipe.batch.global * recipe.model.context, recipe.model.layers);
  for (size_t i = first; i < last; ++i) {
    const StepResult r = run.step(tokens_of(recipe));
    EXPECT_NEAR(r.loss, steps[i].loss, rounding * steps[i].loss) << "step " << i + 1;
    EXPECT_NEAR(r.grad_norm, steps[i].norm, rounding * steps[i].norm) << "step " << i + 1;
  }
}

TEST(OlderCheckpoints, RunBeginsWithTheWeightsOfTheOlderProgram) {
  TrainingRun run(golden_recipe(), self);
  expect_steps(run, 0, 6);
}

struct Layout {
  int ranks;
  ParallelConfig parallel;
};

// True if this rank's part of any gate_up begins or ends inside a gate or an up.
bool owns_part_of_a_gate_or_up(const TrainingRun& run) {
  for (const dp::Bucket& bucket : run.instance.buckets.buckets())
    for (const dp::Bucket::Entry& e : bucket.entries) {
      const Stack& stack = e.parameter->spec().stack;
      if (stack.names.empty()) continue;
      const Shape& shape = e.parameter->shape();
      int64_t one = 1;  // elements of the gate or of the up of one expert
      for (int dim = stack.dim + 1; dim < shape.rank(); ++dim) one *= shape[dim];
      const FlatRange share = bucket.share(e);
      if (!share.empty() && (share.begin % one != 0 || share.end % one != 0)) return true;
    }
  return false;
}

TEST(OlderCheckpoints, SeparateGatesAndUpsContinueTheirRun) {
  const Layout layouts[] = {
      {1, {}}, {2, {.ep = 2}}, {2, {.tp = 2, .sp = true, .etp = 2}}, {4, {.zero = 3}}, {4, {.ep = 2, .zero = 1}}};
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(describe(layout.parallel, layout.ranks));
    std::atomic<bool> parts = false;
    on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
      TrainingRun run(golden_recipe(layout.parallel), world);
      if (owns_part_of_a_gate_or_up(run)) parts = true;
      run.load(golden);
      expect_steps(run, 3, 6);
    });
    if (layout.parallel.zero == 3) {
      EXPECT_TRUE(parts) << "some rank must own only a part of a gate or an up";
    }
  }
}

// Writes the checkpoint in `folder` to `to`, with stacked tensors as separate tensors. Returns the new checkpoint.
io::Checkpoint unstacked(const std::string& folder, const ParameterSet& parameters, const std::string& to) {
  auto checkpoint = io::Checkpoint::open(folder, io::Check::full);
  device::DeviceContext context;
  std::vector<io::ShardItem> items;
  for (const auto& t : checkpoint.manifest().tensors) {
    const Tensor tensor = checkpoint.read(t.name, t.kind, context);
    const Stack stack = t.kind == io::Kind::state ? Stack{} : parameters.find(t.name).spec().stack;
    for (size_t i = 0; i < stack.names.size(); ++i) {
      const Tensor entry = entry_of(tensor, stack.dim, static_cast<int64_t>(i));
      items.push_back({stack.names[i], t.kind, entry.shape(), io::whole(entry.shape()), entry});
    }
    if (stack.names.empty()) items.push_back({t.name, t.kind, t.shape, io::whole(t.shape), tensor});
  }
  const io::CheckpointStore store(to);
  io::CheckpointWriter writer(store, checkpoint.step());
  writer.create();
  const std::vector<std::string> parts{writer.write_shard(0, 1, items)};
  writer.commit(checkpoint.manifest().run, parts);
  return io::Checkpoint::open(store.path(checkpoint.step()), io::Check::full);
}

TEST(OlderCheckpoints, EqualCurrentCheckpointsBitwise) {
  const Scratch scratch;
  Recipe recipe = small_recipe({"model.bias=true", "model.moe.shared_experts=1", "model.moe.dense_residual=true"});
  recipe.run.dir = scratch.path();
  TrainingRun before(recipe, self);
  for (int s = 0; s < 2; ++s) before.step(documents_of(recipe));
  before.save();
  const std::string old =
      unstacked(scratch / "checkpoints/step-00000002", before.instance.parameters, scratch / "elsewhere").folder();
  const TensorMap saved = before.states();
  for (const Layout& layout : {Layout{1, {}}, Layout{2, {.tp = 2, .ep = 2, .etp = 1}}, Layout{3, {.zero = 2}}}) {
    SCOPED_TRACE(describe(layout.parallel, layout.ranks));
    on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
      Recipe r = recipe;
      r.parallel = layout.parallel;
      TrainingRun run(r, world);
      run.load(old);
      expect_bitwise(saved, run.states());
    });
  }
  auto weights = io::Checkpoint::open(old, io::Check::full);  // evaluation and generation read weights this way
  TrainingRun run(recipe, self);
  Checkpointer::load_weights(weights, run.instance);
  for (const auto& [name, w] : run.weights()) expect_bitwise(saved.at(name + "/main"), w, Zeros::expected);
}

}  // namespace
}  // namespace hexad::tests
