// Shared experts give bitwise identical results whether they compute during or after the transfer of rows. Their
// result and other addends are added once to each token, under many schedules.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/schedule/executor.h"
#include "framework/schedule/graph_runner.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

using namespace verify;
namespace {

const Words shared{"model.moe.shared_experts=2", "model.moe.shared_hidden=8"}, beside{"schedule.moe.shared=beside"};

Words in_moe(const Words& settings) {
  Words all;
  for (const std::string& s : settings) all.push_back("schedule.moe." + s);
  return all;
}

struct Layout {
  std::string name;
  int ranks;
  Words overrides;
  bool sequence = false;  // true if tp ranks hold different tokens, which `alike` choices do not allow
};
const Layout layouts[] = {{"Alone", 1, {}},
                          {"Ep2", 2, {"parallel.ep=2"}},
                          {"Tp2", 2, {"parallel.tp=2", "parallel.ep=2", "parallel.etp=1"}},
                          {"Tp2Ep2Etp2", 4, {"parallel.tp=2", "parallel.ep=2"}},
                          {"Tp2SpEp2Etp2", 4, {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2"}, true}};

struct Choice {
  std::string name;
  Words settings;
  bool alike = false;  // true if all tp ranks must hold the same tokens
};
const Choice choices[] = {{"Plain", {}},
                          {"Drop", {"duplicates=drop"}},
                          {"Baseline", {"duplicates=baseline"}},
                          {"Replicated", {"duplicates=replicated"}, true},
                          {"S2Saa", {"duplicates=pause_after_gate", "overlap=a2a_allgather", "chunks=2"}, true},
                          {"O3", {"duplicates=drop", "overlap=a2a_allgather_copy", "chunks=3"}},
                          {"EspDirect", {"esp_exchange=direct"}},
                          {"Tokens3", {"chunk_by=tokens", "chunks=3"}},
                          {"ReturnsLast", {"chunk_by=tokens", "chunks=3", "order=returns_last"}},
                          {"Experts2", {"chunk_by=experts", "chunks=2"}},
                          {"RowsOfTokens", {"rows=token"}},
                          {"S1", {"memory_reuse=s1", "chunk_by=tokens", "chunks=3"}},
                          {"S4", {"memory_reuse=s4", "chunk_by=tokens", "chunks=3"}},
                          {"S4OfTokens", {"memory_reuse=s4", "chunk_by=tokens", "chunks=3", "rows=token"}}};

void expect_same_bits(const ScheduledLayer::Result& a, const ScheduledLayer::Result& b) {
  expect_bitwise(a.y, b.y);
  expect_bitwise(a.dx, b.dx);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) expect_bitwise(a.gradients[i], b.gradients[i], Zeros::expected);
}

void compare(const Layout& l, const Words& load) {
  for (const Choice& c : choices) {
    if (c.alike && l.sequence) continue;
    SCOPED_TRACE(l.name + " " + c.name);
    const Words common = joined(joined(shared, load), joined(l.overrides, in_moe(c.settings)));
    const comm::ThreadOptions late{.jitter = {.seed = 7, .max_delay = std::chrono::microseconds(200)}};
    comm::with_ranks(
        l.ranks,
        [&](const comm::ProcessGroup& world) {
          expect_same_bits(ScheduledLayer(world, common).run(), ScheduledLayer(world, joined(common, beside)).run());
        },
        late);
  }
}

TEST(SharedExperts, OverlappedExpertsEqualSequentialOnes) {
  for (const Layout& l : layouts) compare(l, {});
}

TEST(SharedExperts, OverlappedGeluExpertsWithBiasesEqualSequentialOnes) {
  for (const Layout& l : layouts)
    if (l.name == "Ep2" || l.ranks == 4) compare(l, {"model.bias=true", "model.moe.expert=gelu"});
}

TEST(SharedExperts, OverlappedGatedExpertsEqualSequentialOnes) {
  for (const Layout& l : layouts) compare(l, {"model.moe.shared_gate=true"});
}

// Compares a layer that adds two addends with the same layer without addends.
void expect_addends_added(const comm::ProcessGroup& world, const Words& overrides, int64_t sequences, int64_t length) {
  ScheduledLayer layer(world, overrides);
  const auto without = layer.run(sequences, length);
  for (const auto& p : layer.parameters) p->clear_gradient();
  const auto with = layer.run(sequences, length, 2);
  std::vector<double> sums = values_of(without.y);
  ASSERT_EQ(with.addends.size(), 2u);
  for (const Tensor& addend : with.addends) {
    const auto values = values_of(addend);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  expect_close(to_host(layer.values(sums, without.y.shape())), with.y, base::tolerance(Dtype::f64, 100));
  for (const Tensor& gradient : with.daddends) expect_bitwise(with.dy, gradient);
  expect_bitwise(without.dx, with.dx);
  for (size_t i = 0; i < without.gradients.size(); ++i)
    expect_bitwise(without.gradients[i], with.gradients[i], Zeros::expected);
}

TEST(Addends, AreAddedOnceToEachTokenUnderManySchedules) {
  for (const Layout& l : layouts)
    for (const Choice& c : choices) {
      if (c.alike && l.sequence) continue;
      for (const Words& load : {shared, joined(shared, beside)}) {
        SCOPED_TRACE(l.name + " " + c.name + " " + load.back());
        const Words overrides = joined(load, joined(l.overrides, in_moe(c.settings)));
        comm::with_ranks(l.ranks,
                         [&](const comm::ProcessGroup& world) { expect_addends_added(world, overrides, 3, 4); });
      }
    }
}

// Schedules sum a token's results at different times: with its rank's share of the tokens, with its chunk, or with all
// tokens after the pass. The bits are equal for two reasons:
// - an expert's result does not depend on the rows that are computed with it (framework/kernels/cpu/products/gemm.h)
// - a token's slots and addends are always summed in the same order, in f32
TEST(Addends, GiveTheSameBitsInBf16UnderFourSchedules) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    const auto under = [&](const std::string& choice) {
      const auto layout = std::ranges::find(layouts, "Tp2", &Layout::name);
      const Words settings = in_moe(std::ranges::find(choices, choice, &Choice::name)->settings);
      ScheduledLayer layer(world, joined(shared, joined(layout->overrides, settings)), Dtype::bf16);
      return layer.run(3, 4, 2).y;
    };
    const Tensor plain = under("Plain");
    for (const char* other : {"Tokens3", "S2Saa", "S4"}) {
      SCOPED_TRACE(other);
      expect_bitwise(plain, under(other));
    }
  });
}

TEST(Addends, AreAddedToOneToken) {
  for (const Words& load : {Words{}, shared, joined(shared, beside)})
    comm::with_ranks(1, [&](const comm::ProcessGroup& world) { expect_addends_added(world, load, 1, 1); });
}

struct Run {
  std::string name;
  Words overrides;
};
void PrintTo(const Run& r, std::ostream* out) { *out << r.name; }

class SharedExpertsOfRuns : public testing::TestWithParam<Run> {};

// Tests whole runs, for example with recomputation, offloading, delayed weight gradients, chunks, memory reuse, ZeRO-3,
// tensor ranks or gates.
TEST_P(SharedExpertsOfRuns, OverlappedExpertsEqualSequentialOnes) {
  const Words common =
      joined(joined(shared, {"model.layers=2", "parallel.ep=2", "schedule.worker_lanes=true"}), GetParam().overrides);
  const Recipe after = small_recipe(common), during = small_recipe(joined(common, beside));
  const FixedSource source = documents_of(after);
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun a(after, world), b(during, world);
    expect_bitwise(trajectory(a, source, 2), trajectory(b, source, 2));
  });
}

const Words chunks{"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"};
const Run runs[] = {
    {"Plain", {}},
    {"Norms", {"recompute=norms"}},
    {"Blocks", {"recompute=block"}},
    {"BlocksInChunks", joined({"recompute=block"}, chunks)},
    {"BlocksOfTensorRanks", {"recompute=block", "parallel.tp=2", "parallel.sp=true"}},
    {"Offloaded", {"offload.activations=true", "offload.min_bytes=0", "recompute=norms"}},
    {"DelayedWeights", {"parallel.pp=2", "schedule.pipeline.kind=zb_h1"}},
    {"DelayedWeightsInChunks", joined({"parallel.pp=2", "schedule.pipeline.kind=zb_h1"}, chunks)},
    {"DelayedWeightsOfBlocks", {"parallel.pp=2", "schedule.pipeline.kind=zb_h1", "recompute=block"}},
    {"DelayedWeightsS4",
     joined({"parallel.pp=2", "schedule.pipeline.kind=zb_h1", "schedule.moe.memory_reuse=s4"}, chunks)},
    {"Zero3", {"parallel.zero=3"}},
    {"GatedBlocks", {"model.moe.shared_gate=true", "recompute=block"}},
    {"GatedZero3OfTensorRanks", {"model.moe.shared_gate=true", "parallel.zero=3", "parallel.tp=2", "parallel.etp=1"}},
    {"GatedDelayedWeights", {"model.moe.shared_gate=true", "parallel.pp=2", "schedule.pipeline.kind=zb_h1"}},
    {"Zero3OfTensorRanks", {"parallel.zero=3", "parallel.tp=2", "parallel.etp=1"}},
    {"Zero3S4", joined({"parallel.zero=3", "schedule.moe.memory_reuse=s4"}, chunks)}};
INSTANTIATE_TEST_SUITE_P(, SharedExpertsOfRuns, testing::ValuesIn(runs), [](const auto& i) { return i.param.name; });

// The dense MLP of dense_residual is a member of the block, not of the MoE layer. This MLP computes in the task of the
// shared experts.
TEST_P(SharedExpertsOfRuns, OverlappedDenseMlpEqualsASequentialOne) {
  const Words dense{"model.moe.dense_residual=true", "model.mlp_hidden=20"};
  const bool gated = GetParam().name.starts_with("Gated");  // a gate needs shared experts
  for (const Words& load : {dense, joined(dense, shared)}) {
    if (gated && load == dense) continue;
    const Words common =
        joined(joined(load, {"model.layers=2", "parallel.ep=2", "schedule.worker_lanes=true"}), GetParam().overrides);
    const Recipe after = small_recipe(common), during = small_recipe(joined(common, beside));
    const FixedSource source = documents_of(after);
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      TrainingRun a(after, world), b(during, world);
      expect_bitwise(trajectory(a, source, 2), trajectory(b, source, 2));
    });
  }
}

// Records for each pass:
// - whether a weight of the shared experts has a gradient before and after the pass
// - the cost of the task of the shared experts
// - the bytes that this rank sends to tensor-parallel ranks outside of the tasks of communication
class Witness final : public schedule::GraphRunner {
 public:
  Witness(Parameter& down, const comm::ProcessGroup& world) : down_(down), world_(world) {}
  void run(const schedule::PassName& pass, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    const auto tasks = graph.tasks();
    const auto task =
        std::find_if(tasks.begin(), tasks.end(), [](const auto& t) { return t.spec.name == "shared_experts"; });
    const auto sent =
        std::find_if(tasks.begin(), tasks.end(), [](const auto& t) { return t.spec.name == "dispatch.a2a[0]"; });
    Seen s{.pass = pass.kind, .had_gradient = down_.has_gradient()};
    if (task != tasks.end()) {
      s.cost = task->spec.cost;
      EXPECT_LT(sent, task);
      EXPECT_TRUE(task->after.empty());
    }
    world_.take(comm::TrafficClass::tp);
    schedule::execute(graph, context);
    s.other_tensor_bytes = world_.take(comm::TrafficClass::tp).bytes;
    for (const schedule::Task& t : tasks)
      if (t.spec.cost.group == "tp" || t.spec.cost.group == "etp") s.other_tensor_bytes -= t.spec.cost.wire_bytes;
    s.has_gradient = down_.has_gradient();
    seen.push_back(std::move(s));
  }
  struct Seen {
    schedule::PassKind pass;
    std::optional<schedule::Cost> cost{};
    bool had_gradient = false, has_gradient = false;
    int64_t other_tensor_bytes = 0;
  };
  std::vector<Seen> seen;

 private:
  Parameter& down_;
  const comm::ProcessGroup& world_;
};

int64_t bytes_of(const std::vector<schedule::Transfer>& transfers) {
  int64_t bytes = 0;
  for (const schedule::Transfer& t : transfers) bytes += t.times * t.wire_bytes;
  return bytes;
}

TEST(SharedExperts, OverlappedExpertsHaveATaskInBothPasses) {
  for (const Layout& l : layouts)
    comm::with_ranks(l.ranks, [&](const comm::ProcessGroup& world) {
      SCOPED_TRACE(l.name);
      ScheduledLayer layer(world, joined(joined(shared, l.overrides), beside));
      Witness witness(layer.parameters.find("moe.shared.down.weight"), world);
      layer.layer.run_passes_by(&witness);
      layer.run();
      ASSERT_GE(witness.seen.size(), 2u);  // more passes if Parm's S1 gathers gradients
      const auto &forward = witness.seen[0], &backward = witness.seen[1];
      ASSERT_TRUE(forward.cost && backward.cost);
      EXPECT_FALSE(backward.had_gradient) << "the gradient was computed before the pass";
      EXPECT_TRUE(backward.has_gradient) << "the pass did not compute the gradient";

      // The tp ranks split 2 experts of 8 features, and each rank computes 12 tokens of 16 features. SwiGLU has 3
      // products.
      const double product = 2.0 * 12 * 16 * 16 / layer.mesh.size(Axis::tp);
      EXPECT_EQ(forward.cost->flops, 3 * product);
      EXPECT_EQ(forward.cost->products, (schedule::ByGemmPass<int64_t>{3, 0, 0}));
      EXPECT_EQ(backward.cost->flops, 6 * product);
      EXPECT_EQ(backward.cost->products, (schedule::ByGemmPass<int64_t>{0, 3, 3}));
      for (const Witness::Seen* pass : {&forward, &backward}) {
        EXPECT_EQ(bytes_of(pass->cost->transfers), pass->other_tensor_bytes) << name_of(pass->pass);
        EXPECT_EQ(pass->cost->transfers.empty(), layer.mesh.size(Axis::tp) == 1) << name_of(pass->pass);
      }
    });
}

// Counts the held weights of routed experts. Records the largest count at which a weight of shared experts is gathered.
class Holders final : public autograd::WeightStorage {
 public:
  autograd::GatheredWeights gather_weights(Parameter& p, Stream&) override {
    if (p.name().starts_with("moe.shared.")) beside_shared = std::max(beside_shared, held_);
    if (!p.name().starts_with("moe.experts.")) return {};
    ++held_;
    return {.stay = std::shared_ptr<const void>(this, [this](const void*) { --held_; }), .arrived = {}};
  }
  bool weights_are_resident(const Parameter&) const override { return false; }
  int beside_shared = 0;

 private:
  int held_ = 0;
};

// Gathered weights occupy memory under ZeRO-3 as long as a pass holds them. `Holders` counts the weights that are held.
TEST(SharedExperts, ComputeAloneWithoutTheWeightsOfRoutedExperts) {
  const auto max_held = [](const Words& overrides) {
    int most = 0;
    on_ranks(2, [&](const comm::ProcessGroup& world) {
      ScheduledLayer layer(world, joined(joined(shared, {"parallel.ep=2"}), overrides));
      Holders holders;
      for (const auto& p : layer.parameters) p->gather_weights_by(holders);
      layer.run();
      if (world.rank() == 0) most = holders.beside_shared;
    });
    return most;
  };
  EXPECT_EQ(max_held({}), 0);
  EXPECT_EQ(max_held(in_moe({"memory_reuse=s4", "chunk_by=tokens", "chunks=3"})), 0);
  EXPECT_EQ(max_held(beside), 2) << "both weights of the routed experts must be held during their all-to-all";
}

// Returns the cost of the task shared_experts in forward, for a block with these overrides.
schedule::Cost cost_in_forward(const Words& overrides) {
  schedule::Cost cost;
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const Recipe recipe = small_recipe(joined({"model.layers=1", "parallel.ep=2"}, joined(overrides, beside)));
    TrainingRun run(recipe, world);
    schedule::GraphCollector collector;
    run.instance.run_passes_by(&collector);
    const FixedSource source = documents_of(recipe);
    trajectory(run, source, 1);
    if (world.rank() != 0) return;
    for (const schedule::Task& task : collector.graphs.front().tasks())
      if (task.spec.name == "shared_experts") cost = task.spec.cost;
  });
  return cost;
}

TEST(SharedExperts, CostOfTheTaskIncludesTheDenseMlp) {
  const Words dense{"model.moe.dense_residual=true", "model.mlp_hidden=20"};
  const schedule::Cost a = cost_in_forward(shared), b = cost_in_forward(dense),
                       both = cost_in_forward(joined(shared, dense));
  EXPECT_GT(a.flops, 0);
  EXPECT_DOUBLE_EQ(b.flops / a.flops, 20.0 / 16);  // two shared experts of 8 features
  EXPECT_DOUBLE_EQ(both.flops, a.flops + b.flops);
  EXPECT_EQ(both.products, (schedule::ByGemmPass<int64_t>{6, 0, 0}));
}

TEST(SharedExperts, CostOfTheTaskCountsTheProductsThatTheDenseMlpStates) {
  const Words dense{"model.moe.dense_residual=true", "model.mlp_hidden=20"};
  const schedule::Cost swiglu = cost_in_forward(dense), gelu = cost_in_forward(joined(dense, {"model.mlp=gelu"}));
  EXPECT_EQ(swiglu.products, (schedule::ByGemmPass<int64_t>{3, 0, 0}));
  EXPECT_EQ(gelu.products, (schedule::ByGemmPass<int64_t>{2, 0, 0}));
  EXPECT_DOUBLE_EQ(3 * gelu.flops, 2 * swiglu.flops);
}

TEST(SharedExperts, SequentialExpertsHaveNoTask) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    ScheduledLayer layer(world, joined(shared, {"parallel.ep=2"}));
    Witness witness(layer.parameters.find("moe.shared.down.weight"), world);
    layer.layer.run_passes_by(&witness);
    layer.run();
    ASSERT_EQ(witness.seen.size(), 2u);
    for (const auto& seen : witness.seen) EXPECT_FALSE(seen.cost);
    EXPECT_TRUE(witness.seen[1].had_gradient);
  });
}

}  // namespace
}  // namespace hexad::tests
