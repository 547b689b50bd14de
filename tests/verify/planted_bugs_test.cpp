// Bugs that could occur in real trainers, planted one by one. verify finds each bug, and reports its place. The search
// for a minimal failure finds the smallest layout that shows the bug.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "framework/autograd/parameter.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tests/verify/planted_bug.h"
#include "tools/train/recipe/complete.h"
#include "tools/verify/outcome_text.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace train;
using namespace verify;
namespace {

using comm::Operation;
using comm::ProcessGroup;
using device::Event;
using device::Stream;
using Kind = Operation::Kind;

class Heldout final : public Sabotage {
 public:
  std::unique_ptr<data::Source> heldout(const data::Source& source, const TrainingRun& run) const override {
    const int64_t micro = run.recipe.batch.micro, a_round = micro * run.instance.mesh.size(Axis::dp);
    const int64_t sequences = 4 * micro + 1;  // as in Subject::heldout_sequences()
    return shorter_source(source, sequences / a_round * a_round);
  }
};

// Products of bf16 continue to use the matrices of the previous step, as if a copy of the weights had missed the
// update.
class StaleWeights final : public Sabotage {
 public:
  void before_step(TrainingRun& run) const override {
    for (const auto& p : run.instance.parameters) {
      if (!is_copied(*p)) continue;
      Matrices& m = of(run, p->name());
      m.updated = p->local().to_vector<bf16>();
      if (!m.copied.empty()) put(*p, m.copied);
      m.copied = m.updated;
    }
  }
  void reduced(TrainingRun& run) const override {
    for (const auto& p : run.instance.parameters)
      if (is_copied(*p)) put(*p, of(run, p->name()).updated);
  }

 private:
  struct Matrices {
    std::vector<bf16> updated, copied;
  };
  static bool is_copied(const Parameter& p) { return p.dtype() == Dtype::bf16 && p.shape().rank() >= 2; }
  static void put(Parameter& p, const std::vector<bf16>& values) {
    std::copy(values.begin(), values.end(), p.local().data<bf16>());
  }
  Matrices& of(const TrainingRun& run, const std::string& name) const {
    const std::lock_guard lock(ranks_);
    return all_[{&run, name}];
  }
  mutable std::mutex ranks_;
  mutable std::map<std::pair<const TrainingRun*, std::string>, Matrices> all_;
};

// Numbers that each step sums over the world: first valid_tokens, then the squared norm and the loss in one operation.
enum class Number { valid_tokens, norm, loss };
Wrong scaled_number(Number which, double factor) {
  auto next_is_second = std::make_shared<bool>(false);
  return [=](const ProcessGroup& right, const Operation& op, Stream& stream) -> std::optional<Event> {
    if (right.name() != "world" || op.kind != Kind::all_reduce || op.out.dtype() != Dtype::f64) return {};
    const bool first = op.out.numel() == 1, second = std::exchange(*next_is_second, first) && op.out.numel() == 2;
    if (which == Number::valid_tokens ? !first : !second) return {};
    right.all_reduce(op.out, op.reduce, stream).wait();
    const int64_t at = which == Number::loss ? 1 : 0;
    scale(op.out.slice(0, at, at + 1), factor);
    return stream.record();
  };
}

// Plants a bug: the experts of every ep rank start with the weights of the first ep rank's experts.
void replicate_experts(TrainingRun& run) { initialize_experts_of(run, 0); }

void forget_expert_moments(TrainingRun& run) {
  if (size_of(run, Axis::ep) == 1) return;
  for (const auto& s : run.optimizer.states())
    if (s.parameter->placement().view == base::MeshView::expert && s.kind == "moment1") scale(s.tensor, 0);
}

void scale_down_biases(TrainingRun& run, double factor) {
  for (const auto& p : run.instance.parameters)
    if (p->name().ends_with("experts.down.bias")) scale(p->local(), factor);
}

// Plants a bug: the last rank of a group sends its piece shifted by one element.
std::optional<Event> gather_one_off(const ProcessGroup& right, const Operation& op, Stream& stream) {
  if (op.kind != Kind::all_gather || !right.name().starts_with("dp x cp") || right.rank() + 1 < right.size()) return {};
  Tensor shifted = Tensor::like(op.in);
  const int64_t n = op.in.numel();
  for (int64_t i = 0; i < n; ++i) shifted.data<double>()[i] = op.in.data<double>()[std::min(i + 1, n - 1)];
  return right.all_gather(op.out, shifted, stream);
}

// Plants a bug: in a broadcast among ep ranks, all ranks but the sender get zeros.
std::optional<Event> zeros_from_others(const ProcessGroup& right, const Operation& op, Stream& stream) {
  if (op.kind != Kind::broadcast || right.name() != "ep") return {};
  right.broadcast(op.out, op.peer, stream).wait();
  if (op.peer != right.rank()) scale(op.out, 0);
  return stream.record();
}

// Plants a bug: each rank computes the number of chunks only from its own tokens.
std::optional<Event> own_chunks(const ProcessGroup&, const Operation& op, Stream& stream) {
  if (op.kind != Kind::all_reduce || op.reduce != comm::Reduce::max || op.out.numel() != 1) return {};
  return stream.record();
}

void lose_down_bias_gradients(TrainingRun& run) {
  if (run.recipe.schedule.moe.settled().memory_reuse == moe::ReuseStrategy::none) return;
  for (const auto& p : run.instance.parameters)
    if (p->name().ends_with("experts.down.bias")) scale(p->gradient(), 0);
}

// Plants a bug: the loop of dense products ends before the last expert, so this expert's gradients remain zero.
void lose_last_dense_product(TrainingRun& run) {
  if (run.recipe.schedule.moe.settled().gemms != moe::Gemms::dense) return;
  for_each_expert_tensor(run, [](Parameter& p) {
    const int64_t experts = p.gradient().dim(0);
    scale(p.gradient().slice(0, experts - 1, experts), 0);
  });
}

// Before the second step, sets a schedule with two chunks of tokens and the wire format `wire`. A run that leaves its
// schedule to `auto` also changes the schedule between steps.
void switch_schedule(TrainingRun& run, kernels::WireFormat wire) {
  if (run.progress.step != 1) return;
  moe::MoeSchedule s = run.recipe.schedule.moe.settled();
  s.chunk_by = moe::ChunkBy::tokens, s.chunks = 2, s.wire = wire;
  run.instance.reschedule(s);
}
void switch_rightly(TrainingRun& run) { switch_schedule(run, kernels::WireFormat::model); }
// Plants a bug: the new schedule sends rows in fp8, although the recipe sets another wire format.
void switch_to_fp8(TrainingRun& run) { switch_schedule(run, kernels::WireFormat::fp8); }

std::unique_ptr<data::Source> one_token_late(const data::Source& source, const TrainingRun& run) {
  if (run.instance.mesh.coordinate(Axis::cp) == 0) return nullptr;
  return wrong_source(source, [](int64_t, const data::Row& row) {
    std::rotate(row.ids.begin(), row.ids.begin() + 1, row.ids.end());
    std::rotate(row.targets.begin(), row.targets.begin() + 1, row.targets.end());
  });
}

// Plants a bug: rows in fp8 arrive with 1.5 times the correct scale.
void pack_with_large_scales(device::Stream& s, const Tensor& bytes, const Tensor& x, const Tensor& index,
                            const Tensor& row_weights, kernels::WireFormat format) {
  kernels::cpu_table.wire.pack(s, bytes, x, index, row_weights, format);
  const int64_t count = row_weights.defined() ? row_weights.dim(1) : 0;
  const kernels::WireLayout layout = kernels::wire_layout(format, x.dtype(), x.dim(1), count);
  for (int64_t r = 0; r < bytes.dim(0); ++r) {
    uint8_t* at = bytes.data<uint8_t>() + r * layout.bytes + layout.scale;
    float scale = 0;
    std::memcpy(&scale, at, sizeof scale);
    scale *= 1.5f;
    std::memcpy(at, &scale, sizeof scale);
  }
}
void send_with_large_scales(TrainingRun& run) {
  static const kernels::WireKernels wrong{.pack = pack_with_large_scales, .unpack = kernels::cpu_table.wire.unpack};
  for (const auto& [index, layer] : run.instance.model.moe_layers()) layer->send_rows_with(&wrong);
}

// Plants a bug: the last stage swaps micro-batches 0 and 1, and 2 and 3.
std::unique_ptr<data::Source> swapped_micro_batches(const data::Source& source, const TrainingRun& run) {
  const int stages = size_of(run, Axis::pp);
  if (stages == 1 || run.instance.mesh.coordinate(Axis::pp) + 1 < stages) return nullptr;
  const int64_t micro = run.recipe.batch.micro;
  return wrong_source(source, [&source, micro](int64_t index, const data::Row& row) {
    source.fill((index / micro ^ 1) * micro + index % micro, row);
  });
}

std::vector<Bug> bugs() {
  const auto reduced = [](Hooks::Hook hook) { return hooks({.reduced = std::move(hook)}); };
  return {
      {"ExpertGradientsTimesEp", {}, "dp=4,ep=2", ".experts.", "dp=2,ep=2", reduced([](TrainingRun& run) {
         for_each_expert_tensor(run, [&](Parameter& p) { scale(p.gradient(), size_of(run, Axis::ep)); });
       })},
      {"ExpertGradientsTimesTp", {}, "dp=2,tp=2,ep=4,etp=1", ".experts.", "tp=2,etp=1", reduced([](TrainingRun& run) {
         for_each_expert_tensor(run, [&](Parameter& p) { scale(p.gradient(), size_of(run, Axis::tp)); });
       })},
      {"ExpertGradientsNotSummedOverReplicas",
       {},
       "dp=4,ep=2",
       ".experts.",
       "dp=4,ep=2",
       groups(leave_out(Kind::all_reduce, "edp"))},
      {"DenseGradientsNotSummedOverContexts",
       {},
       "dp=2,cp=2",
       "gradient ",
       "cp=2",
       std::make_shared<Groups>([](const MeshSizes& mesh) {
         return mesh[Axis::cp] > 1 ? leave_out(Kind::all_reduce, "dp x cp") : Wrong(leave_out(Kind::barrier, ""));
       })},
      {"RouterGradientNotSummedOverTp",
       {"model.moe.experts=8"},
       "dp=2,tp=2,ep=2",
       "router.weight",
       "tp=2,etp=1",
       groups(leave_out(Kind::all_reduce, "dp x cp x tp", 8 * 16))},
      {"NormGainsNotSummedUnderSp",
       {"model.moe.experts=8"},
       "dp=2,tp=2,sp=true,recompute=block",
       "norm",
       "tp=2,etp=1,sp=true",
       groups(leave_out(Kind::all_reduce, "dp x cp x tp", 16))},
      {"ReplicatedKeyHeadsNotSummed",
       {"model.kv_heads=1", "model.head_size=6"},
       "dp=2,tp=2",
       "attention.",
       "tp=2,etp=1",
       groups(leave_out(Kind::all_reduce, "dp x cp x tp", 6 * 16))},
      {"TiedEmbeddingNotSummedOverStages",
       {"model.tied_embedding=true"},
       "pp=2,dp=2",
       "gradient embedding",
       "pp=2",
       groups(leave_out(Kind::all_reduce, "dp x cp x pp"))},
      {"NormCountsExpertsTwice",
       {},
       "dp=4,ep=4",
       "norm of all gradients",
       "dp=2,ep=2",
       std::make_shared<Groups>(
           [](const MeshSizes& mesh) { return scaled_number(Number::norm, mesh[Axis::ep] > 1 ? 2.0 : 1.0); })},
      {"AuxiliaryLossOfOneRanksTokens",
       {},
       "dp=2,cp=2",
       "auxiliary loss",
       "cp=2",
       groups(leave_out(Kind::all_reduce, "tp x cp"))},
      {"CapacityOfOneRanksTokens",
       {"model.moe.capacity_factor=1"},
       "dp=2,cp=2,start=resumed",
       "router of MoE layer 0: dropped",
       "cp=2",
       groups(own_scores_only)},
      {"BiasOfASplitExpertAddedByEveryRank",
       {"model.bias=true"},
       "dp=4,etp=2",
       "router of MoE layer",
       "dp=2,etp=2",
       // The result contains etp times the bias if all etp ranks add the bias. Scaling the biases by etp has the same
       // effect. The scaling is undone before the update.
       hooks({.before_step = [](TrainingRun& run) { scale_down_biases(run, size_of(run, Axis::etp)); },
              .reduced = [](TrainingRun& run) { scale_down_biases(run, 1.0 / size_of(run, Axis::etp)); }})},
      {"LossDividedByOneContextRanksTokens",
       {},
       "dp=2,cp=2",
       "gradient ",
       "cp=2",
       std::make_shared<Groups>(
           [](const MeshSizes& mesh) { return scaled_number(Number::valid_tokens, 1.0 / mesh[Axis::cp]); })},
      {"LogOfTpAddedToTheLoss",
       {},
       "dp=2,tp=2",
       "loss",
       "tp=2,etp=1",
       hooks({.after_step = [](TrainingRun& run, StepResult& r) { r.loss += std::log(size_of(run, Axis::tp)); }})},
      {"ZigzagShiftedByOneToken",
       {},
       "dp=2,cp=2,cp_kind=ulysses",
       "router of MoE layer 0",
       "cp=2",
       std::make_shared<Data>(one_token_late)},
      {"ExpertsEqualOnEveryRank",
       {},
       "dp=4,ep=4",
       "initial weight",
       "dp=2,ep=2",
       hooks({.initialized = replicate_experts})},
      {"ExpertMomentsLostByResharding",
       {},
       "dp=4,ep=2,recompute=block,start=resumed",
       "moment1",
       "dp=2,ep=2,start=resumed",
       hooks({.loaded = forget_expert_moments})},
      {"ZeroPieceShiftedByOneElement",
       {},
       "dp=4,zero=2,recompute=norms",
       "weight ",
       "dp=2,zero=2",
       groups(gather_one_off)},
      {"PipelinePairsTheWrongMicroBatches",
       {},
       "pp=2,dp=2,pipeline=1f1b",
       "router of MoE layer 1",
       "pp=2",
       std::make_shared<Data>(swapped_micro_batches)},
      {"StaleWeightsAfterAnUpdate",
       {},
       "dp=4,ep=2,subject=bf16",
       "gradient ",
       "dp=1,subject=bf16",
       std::make_shared<StaleWeights>()},
      {"EvaluationDropsItsLastRound",
       {},
       "dp=4,ep=4",
       "loss of held-out text: tokens",
       "dp=1",
       std::make_shared<Heldout>()},
      {"DownBiasGradientLostUnderReuse",
       {"model.bias=true"},
       "dp=4,ep=2,memory_reuse=s2",
       "gradient layers.",
       "dp=1,memory_reuse=s2",
       reduced(lose_down_bias_gradients)},
      {"LastExpertMissingInDenseProducts",
       {},
       "dp=4,ep=2,gemms=dense",
       ".experts.",
       "dp=1,gemms=dense",
       reduced(lose_last_dense_product)},
      {"AutoSwitchesToFp8Rows", {}, "dp=4,ep=2", "", "dp=1", hooks({.before_step = switch_to_fp8})},
      {"GradientsOfShadowsNotSummed",
       {},
       "dp=4,ep=2,hot_experts=shadow",
       ".experts.",
       "dp=2,ep=2,hot_experts=shadow",
       groups(leave_out(Kind::reduce_scatter, "ep"))},
      {"WeightsOfShadowsNotSent",
       {},
       "dp=4,ep=2,hot_experts=shadow",
       "",
       "dp=2,ep=2,hot_experts=shadow",
       groups(zeros_from_others)},
      {"ScalesOfFp8RowsTooLarge",
       {},
       "dp=4,ep=2,subject=fp8",
       "router of MoE layer 1",
       "dp=1,subject=fp8",
       hooks({.initialized = send_with_large_scales})},
      {"ScalesOfFp8RowsTooLargeInSumsOfRows",
       {},
       "dp=4,ep=2,rows=token,subject=fp8",
       "",
       "dp=1,subject=fp8",
       hooks({.initialized = send_with_large_scales})},
      {"SkippedStepCountedAsAnUpdate",
       {},
       "dp=4,ep=2,subject=eventful",
       "weight ",
       "dp=1,subject=eventful",
       hooks({.before_step = [](TrainingRun& run) { run.progress.skipped = 0; }})},
      {"LearningRateRestartsOnResume",
       {},
       "dp=4,start=resumed,subject=eventful",
       "learning rate",
       "dp=1,start=resumed,subject=eventful",
       hooks({.loaded = [](TrainingRun& run) { run.recipe.train.steps += run.progress.step; }})},
      {"WeightsOfInitFromReachOnlyOneReplica",
       {},
       "dp=4,ep=2,subject=eventful",
       "initial weight",
       "dp=2,subject=eventful",
       hooks({.initialized =
                  [](TrainingRun& run) {
                    if (run.instance.mesh.world().rank() == 1)
                      for (const auto& p : run.instance.parameters) p->initialize(run.recipe.train.seed);
                  }})},
      {"ChunkCountsNotAgreed",
       {},
       "dp=4,ep=2,memory_reuse=s4_limited",
       "",
       "dp=2,ep=2,memory_reuse=s4_limited",
       groups(own_chunks),
       "all_gather"},
  };
}

// A switch changes results only by rounding if the bug AutoSwitchesToFp8Rows is not planted.
TEST(SwitchedSchedule, AgreesWithTheOracle) {
  const Scratch scratch;
  Recipe recipe = small_recipe();
  complete(recipe, 1);
  const layers::Registry registry;
  const Subject subject(recipe, registry, 2, scratch.path());
  Oracles oracles(subject);
  const Variant layout = parse_layouts("dp=4,ep=2", 4)[0];
  const Outcome outcome = run_in_threads(subject, oracles.of(layout), layout, {.jitter = {}, .seconds = 60},
                                         *hooks({.before_step = switch_rightly}));
  EXPECT_TRUE(outcome.agrees()) << explanation(outcome);
}

class PlantedBugs : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBugs, AreFoundAndShownInTheSmallestLayout) { expect_found(GetParam()); }

INSTANTIATE_TEST_SUITE_P(, PlantedBugs, testing::ValuesIn(bugs()), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
