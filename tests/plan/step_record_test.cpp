// Records of a step's operations, compared with the estimated traffic and with the structure of the step.
#include "tools/plan/step_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/training/training.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/traffic_estimate.h"

namespace hexad::tests {

using namespace plan;

namespace {

using device::CommunicationWork;
using device::Issue;

Recipe recipe_with(const std::vector<std::string>& overrides) {
  std::vector<std::string> all{"model.hidden=64", "model.moe.routing=balanced", "batch.micro=1", "train.precision=f32"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_recipe(all);
}

StepRecord record_of(const Recipe& recipe, int world, int rank = 0, std::vector<int> nodes = {}) {
  const mesh::Layout layout(recipe.parallel.sizes(), world);
  const int64_t micro_batches = micro_batches_of(recipe, layout);
  return record_steps(recipe, {}, layout, rank, RoutingLoad::even, {&micro_batches, 1}, std::move(nodes)).front();
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class StepRecordTraffic : public testing::TestWithParam<Case> {};

TEST_P(StepRecordTraffic, HasTheBytesOfTheStepByClass) {
  const Recipe recipe = recipe_with(GetParam().overrides);
  const mesh::Layout layout(recipe.parallel.sizes(), GetParam().ranks);
  for (const int rank : {0, GetParam().ranks - 1}) {
    const StepRecord record = record_of(recipe, GetParam().ranks, rank);
    std::array<double, comm::traffic_class_count> sent{};
    for (const Issue& issue : record.issues)
      if (const auto* work = std::get_if<CommunicationWork>(&issue.work))
        sent[record.groups[work->group].traffic] += static_cast<double>(work->sent);
    EXPECT_EQ(sent, estimate_traffic(recipe, {}, layout, rank).bytes) << "rank " << rank;
  }
}

TEST_P(StepRecordTraffic, OrdersOperations) {
  const StepRecord record = record_of(recipe_with(GetParam().overrides), GetParam().ranks);
  ASSERT_FALSE(record.issues.empty());
  for (size_t i = 0; i < record.issues.size(); ++i)
    for (const int32_t before : record.issues[i].after) {
      EXPECT_GE(before, 0);
      EXPECT_LT(before, static_cast<int32_t>(i));
    }
}

INSTANTIATE_TEST_SUITE_P(, StepRecordTraffic,
                         testing::Values(Case{"Experts", 2, {"parallel.ep=2"}}, Case{"Tensor", 2, {"parallel.tp=2"}},
                                         Case{"Context", 2, {"parallel.cp=2"}}, Case{"Pipeline", 2, {"parallel.pp=2"}},
                                         Case{"Data", 2, {}}, Case{"Zero3", 4, {"parallel.zero=3", "parallel.ep=2"}},
                                         Case{"Mixed", 8, {"parallel.tp=2", "parallel.ep=4", "parallel.sp=true"}}),
                         [](const auto& c) { return c.param.name; });

TEST(StepRecord, CountsTheOperationsOfProducts) {
  const Recipe recipe = recipe_with({"model.moe.experts=0", "model.mlp_hidden=96", "model.layers=2"});
  double flops = 0;
  for (const Issue& issue : record_of(recipe, 1).issues)
    if (const auto* product = std::get_if<device::ProductWork>(&issue.work)) flops += product->flops();
  const auto& m = recipe.model;
  const double tokens = static_cast<double>(recipe.batch.global * m.context), hidden = static_cast<double>(m.hidden);
  const double kv = hidden * static_cast<double>(m.kv_heads.value_or(m.heads)) / static_cast<double>(m.heads);
  const double layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * 96;
  // Each element of a weight is used in three products, with two operations per token in each product.
  EXPECT_DOUBLE_EQ(flops, 6 * tokens * (2 * layer + hidden * static_cast<double>(m.vocab)));
}

TEST(StepRecord, ProductsOfChunksHaveTheShareOfTheThreads) {
  const auto capped = [](const std::string& share) {
    const Recipe recipe = recipe_with({"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2",
                                       "train.threads=4", "schedule.moe.compute_share=" + share});
    return std::ranges::count_if(record_of(recipe, 2).issues, [](const Issue& issue) {
      const auto* product = std::get_if<device::ProductWork>(&issue.work);
      return product && product->share == 0.5;
    });
  };
  EXPECT_EQ(capped("1"), 0);
  EXPECT_GT(capped("0.5"), 0);
}

// Returns the number of additions with a separate launch in the forward pass of the first micro-batch.
int64_t additions_of(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"model.moe.aux_loss.coefficient=0", "model.layers=2"});
  const StepRecord record = record_of(recipe_with(overrides), 1);
  return std::ranges::count_if(record.issues, [&](const Issue& issue) {
    return issue.family == "pointwise" && issue.name == "add" &&
           record.where(issue).starts_with("forward, micro-batch 0");
  });
}

TEST(StepRecord, IncludesAdditionsInNormsAndCombines) {
  EXPECT_EQ(additions_of({}), 0);
  for (const char* shared : {"after", "beside"})
    EXPECT_EQ(additions_of({"model.moe.shared_experts=1", std::string("schedule.moe.shared=") + shared}), 0) << shared;
  EXPECT_EQ(additions_of({"model.moe.dense_residual=true", "model.mlp_hidden=20"}), 0);
  // Each of the two blocks has one separate addition, either after a dense MLP or before a LayerNorm. No kernel of
  // LayerNorm includes an addition.
  EXPECT_EQ(additions_of({"model.moe.experts=0", "model.mlp_hidden=96"}), 2);
  EXPECT_EQ(additions_of({"model.norm=layer_norm"}), 2);
}

TEST(StepRecord, NamesThePlaceOfOperations) {
  const StepRecord record = record_of(recipe_with({"parallel.ep=2"}), 2);
  std::set<std::string> exchanges;
  for (const Issue& issue : record.issues)
    if (issue.name == "all_to_all") exchanges.insert(record.where(issue));
  EXPECT_TRUE(exchanges.contains("forward, micro-batch 0 / layers.0.moe forward")) << testing::PrintToString(exchanges);
  EXPECT_TRUE(exchanges.contains("backward, micro-batch 0 / layers.1.moe backward"))
      << testing::PrintToString(exchanges);
}

TEST(StepRecord, DistinguishesMessagesFromCollectives) {
  const StepRecord record = record_of(recipe_with({"parallel.pp=2"}), 2, 1);
  std::map<std::string, int> messages;
  for (const Issue& issue : record.issues)
    if (issue.name == "send" || issue.name == "receive") {
      ++messages[std::string(issue.name)];
      EXPECT_EQ(std::get<CommunicationWork>(issue.work).peer, 0);
    }
  // The last of two stages receives an activation and sends a gradient for each of 8 micro-batches.
  EXPECT_EQ(messages, (std::map<std::string, int>{{"receive", 8}, {"send", 8}}));
}

TEST(StepRecord, KnowsTheNodesOfRanks) {
  const Recipe recipe = recipe_with({"parallel.ep=4", "schedule.moe.all_to_all=hierarchical"});
  const StepRecord record = record_of(recipe, 4, 0, {0, 0, 1, 1});
  std::set<std::string> groups;
  for (const Issue& issue : record.issues)
    if (issue.name == "all_to_all") groups.insert(record.groups[std::get<CommunicationWork>(issue.work).group].name);
  EXPECT_EQ(groups.size(), 2U) << testing::PrintToString(groups);  // groups inside nodes and across nodes
}

// Returns the bytes of the kernels and copies of a family in the update, by name.
std::map<std::string, int64_t> bytes_by_name(const StepRecord& record, std::string_view family) {
  std::map<std::string, int64_t> bytes;
  for (const Issue& issue : record.issues) {
    if (issue.family != family || record.where(issue) != "optimizer") continue;
    if (const auto* work = std::get_if<device::MemoryWork>(&issue.work)) bytes[std::string(issue.name)] += work->bytes;
    if (const auto* work = std::get_if<device::CopyWork>(&issue.work))
      bytes[work->kind == device::CopyWork::Kind::offload ? "offload" : "restore"] += work->bytes;
  }
  return bytes;
}

// Returns a record of rank 0 of two ranks, and the numbers of f32 weights and of bf16 weights that rank 0 owns.
std::pair<StepRecord, std::array<int64_t, 2>> record_and_owned(const Recipe& recipe,
                                                               const train::Extensions& extensions = {}) {
  RunOnMeta run(recipe, extensions, mesh::Layout(recipe.parallel.sizes(), 2), 0, RoutingLoad::even,
                RunOnMeta::Record::issues);
  run.follow_spans();
  std::array<int64_t, 2> owned{};
  for (const auto& p : run.instance().parameters)
    if (!p->owned().empty()) owned[p->owned_weights().dtype() == base::Dtype::bf16] += p->owned().size();
  return {record_step(run, 1, 0), owned};
}

constexpr int64_t clip_factor = 8;  // bytes of the factor that clips gradients, which each update reads

TEST(StepRecord, ContainsTheUpdateOfOwnedWeights) {
  int64_t whole = 0;
  for (const char* zero : {"0", "1", "3"})
    for (const char* precision : {"f32", "bf16"}) {
      SCOPED_TRACE(base::cat("ZeRO ", zero, " in ", precision));
      const auto [record, owned] = record_and_owned(
          recipe_with({std::string("parallel.zero=") + zero, std::string("train.precision=") + precision}));
      const auto [wide, narrow] = owned;
      EXPECT_EQ(narrow > 0, precision == std::string("bf16"));
      // Main weights and two moments are read and written, the gradient is read, and bf16 weights are written.
      EXPECT_EQ(bytes_by_name(record, "optimizer"),
                (std::map<std::string, int64_t>{{"adamw", 28 * wide + 30 * narrow + clip_factor}}));
      if (zero == std::string("0"))
        whole = wide + narrow;
      else
        EXPECT_LT(wide + narrow, whole) << "ranks share the update";
    }
}

TEST(StepRecord, CountsRestsAndReadsOfWeightsInTheUpdate) {
  const auto [record, owned] =
      record_and_owned(recipe_with({"parallel.zero=1", "train.precision=bf16", "optim.main_weights=rest"}));
  const auto [wide, narrow] = owned;
  EXPECT_GT(narrow, 0);
  // The update reads and writes the rests of main weights (2 bytes), weights (2) and two moments (8). It reads the
  // gradient (4).
  EXPECT_EQ(bytes_by_name(record, "optimizer"),
            (std::map<std::string, int64_t>{{"adamw", 28 * wide + 28 * narrow + clip_factor}}));
}

TEST(StepRecord, CountsTheBytesOfLogits) {
  struct Bytes {
    int64_t loss = 0;            // bytes of cross-entropy
    int64_t beyond_product = 0;  // bytes of the head's forward product beyond operands and result in bf16
    bool operator==(const Bytes&) const = default;
  };
  const Recipe recipe = recipe_with({"train.precision=bf16"});
  const int64_t tokens = recipe.batch.global * recipe.model.context, vocab = recipe.model.vocab;
  const auto bytes = [&](train::LogitsDtype of_logits) {
    Recipe r = recipe;
    r.train.logits_dtype = of_logits;
    Bytes sum;
    for (const Issue& issue : record_of(r, 1).issues) {
      const auto* product = std::get_if<device::ProductWork>(&issue.work);
      if (product && product->outputs == vocab && product->pass == base::GemmPass::forward)
        sum.beyond_product += product->extra_bytes;
      if (issue.family == "cross_entropy") sum.loss += std::get<device::MemoryWork>(issue.work).bytes;
    }
    return sum;
  };
  const int64_t row = 4 + 4;  // bytes of a token's loss and target
  EXPECT_EQ(bytes(train::LogitsDtype::f32), (Bytes{tokens * ((4 + 2) * vocab + row), tokens * 2 * vocab}));
  EXPECT_EQ(bytes(train::LogitsDtype::bf16), (Bytes{tokens * ((2 + 2) * vocab + row), 0}));
}

TEST(StepRecord, ContainsTheGradientNormAndTheGatherOfWeights) {
  const auto [record, owned] = record_and_owned(recipe_with({"parallel.zero=1"}));
  std::map<std::string, int> found;
  for (const Issue& issue : record.issues) ++found[base::cat(record.where(issue), ": ", issue.family, ".", issue.name)];
  for (const char* name : {"gradients: norm: optimizer.squared_norm", "gradients: norm: optimizer.clip",
                           "gradients: norm: comm.all_reduce", "optimizer: comm.all_gather"})
    EXPECT_GT(found[name], 0) << name << " is not among " << testing::PrintToString(found);
}

// The previous step left its gathers in flight, and this step leaves its own gathers to the next step.
TEST(StepRecord, BeginsWithTheGathersThatItHides) {
  for (const char* zero : {"parallel.zero=1", "parallel.zero=2"})
    for (const device::DeviceKind kind : {device::DeviceKind::cpu, device::DeviceKind::emulated}) {
      SCOPED_TRACE(base::cat(zero, " on ", device::name_of(kind)));
      Recipe recipe = recipe_with({zero, "distributed.bucket_bytes=8192"});
      recipe.device = kind;
      const StepRecord record = record_of(recipe, 2);
      const auto is_gather = [&](size_t i) {
        return record.issues[i].name == "all_gather" && record.is_in_span(record.issues[i], "optimizer");
      };
      size_t gathers = 0;
      while (is_gather(gathers)) ++gathers;
      EXPECT_GT(gathers, 1U);
      std::vector<char> awaited(gathers);
      std::string first_use;
      for (size_t i = 0; i < record.issues.size(); ++i) {
        EXPECT_FALSE(i >= gathers && is_gather(i));
        for (const int32_t before : record.issues[i].after)
          if (before < static_cast<int32_t>(gathers)) {
            awaited[before] = true;
            if (first_use.empty()) first_use = record.where(record.issues[i]);
          }
      }
      EXPECT_EQ(std::ranges::count(awaited, 1), static_cast<std::ptrdiff_t>(gathers));
      EXPECT_TRUE(first_use.starts_with("forward, micro-batch 0")) << first_use;
    }
}

// A block's attention and its experts are used three times under recomputation: in forward, in the recomputation, and
// in backward.
TEST(StepRecord, UnitsAreGatheredAheadAlsoWithRecomputation) {
  const auto gathers = [](const std::string& recompute) {
    const Recipe recipe = recipe_with({"parallel.zero=3", "model.layers=6", "distributed.bucket_bytes=16384",
                                       "batch.global=16", base::cat("recompute=", recompute)});
    return std::ranges::count(record_of(recipe, 2).issues, std::string_view("all_gather"), &Issue::name);
  };
  const auto once = gathers("none");
  EXPECT_GT(once, 0);
  EXPECT_LE(gathers("block"), 1.6 * static_cast<double>(once)) << "once in forward and twice in backward";
}

TEST(StepRecord, ContainsTheUpdateOfSgd) {
  const auto [record, owned] = record_and_owned(recipe_with({"optim.name=sgd", "parallel.zero=0"}));
  const auto bytes = bytes_by_name(record, "optimizer");
  const auto updates = std::ranges::count(record.issues, std::string_view("sgd"), &Issue::name);
  EXPECT_GT(updates, 0);
  EXPECT_EQ(bytes, (std::map<std::string, int64_t>{{"sgd", 12 * owned[0] + updates * clip_factor}}));
}

TEST(StepRecord, ContainsTheCopiesOfOffloadedStates) {
  const auto [record, owned] =
      record_and_owned(recipe_with({"offload.optimizer=file", "train.precision=bf16", "parallel.zero=0"}));
  const auto [wide, narrow] = owned;
  // The f32 weights of a bf16 run (routers) are also their main weights, so they remain in memory.
  const int64_t states = 8 * wide + 12 * narrow;
  const auto bytes = bytes_by_name(record, "pointwise");
  ASSERT_TRUE(bytes.contains("offload") && bytes.contains("restore")) << testing::PrintToString(bytes);
  EXPECT_EQ(bytes.at("offload"), states);
  EXPECT_EQ(bytes.at("restore"), states);
}

// Rule that accesses tensors on the host, so it cannot run on the meta device.
class Direct final : public optim::UpdateRule {
 public:
  std::vector<std::string> states() const override { return {"velocity"}; }
  void update(optim::Stream&, std::span<const optim::Slice> slices, const optim::UpdateStep&) const override {
    slices.front().main.data<float>()[0] = 0;
  }
};

TEST(StepRecord, ContainsAnAssumedUpdateOfOtherRules) {
  train::Extensions extensions;
  extensions.optimizers.add("direct", {.reads_moment_dtype = true,
                                       .make = [](const optim::RuleSpec&) { return std::make_unique<Direct>(); }});
  Recipe recipe = recipe_with({"parallel.zero=0"});
  recipe.optim.name = "direct";
  const auto [record, owned] = record_and_owned(recipe, extensions);
  EXPECT_EQ(bytes_by_name(record, "optimizer"), (std::map<std::string, int64_t>{{"update", 20 * owned[0]}}))
      << "main weights and velocity are read and written, and the gradient is read";
  recipe.optim.moment_dtype = optim::MomentDtype::bf16;
  const StepRecord narrow = record_and_owned(recipe, extensions).first;
  const auto update = std::ranges::find(narrow.issues, std::string_view("update"), &Issue::name);
  ASSERT_NE(update, narrow.issues.end());
  EXPECT_EQ(std::get<device::MemoryWork>(update->work).dtype, base::Dtype::bf16) << "the dtype of the states";
}

// On a CPU, lanes of memory reuse copy while the rank's thread computes, if the lanes have threads.
TEST(StepRecord, HasTheLanesOfACpuIfLanesHaveThreads) {
  const auto lanes_of = [](const std::string& overlap, const std::string& threads) {
    Recipe recipe = recipe_with({"parallel.ep=2", "schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens",
                                 "schedule.moe.chunks=2", "schedule.pipeline.overlap=" + overlap,
                                 "schedule.worker_lanes=" + threads});
    recipe.device = device::DeviceKind::cpu;
    std::set<device::Lane> lanes;
    for (const Issue& issue : record_of(recipe, 2).issues) lanes.insert(issue.lane);
    return lanes;
  };
  for (const char* overlap : {"none", "micro_batches"}) {
    EXPECT_EQ(lanes_of(overlap, "false"), std::set{device::Lane::compute}) << overlap;
    EXPECT_TRUE(lanes_of(overlap, "true").contains(device::Lane::copy)) << overlap;
  }
}

// Returns the names of the operations at which counts of the first MoE layer become known, in their order. "all_gather"
// gathers the counts of all ranks, and "to host" copies counts to the host.
std::vector<std::string> reading_of_counts(const std::string& collectives) {
  const StepRecord record =
      record_of(recipe_with({"parallel.ep=2", "device=cuda", "distributed.device_collectives=" + collectives}), 2);
  std::vector<std::string> names;
  for (const Issue& issue : record.issues) {
    if (!record.is_in_span(issue, "layers.0.moe forward")) continue;
    if (issue.name == "all_to_all") break;
    const auto* copy = std::get_if<device::CopyWork>(&issue.work);
    if (copy && copy->kind == device::CopyWork::Kind::to_host) names.emplace_back("to host");
    if (issue.name == "all_gather") names.emplace_back(issue.name);
  }
  return names;
}

TEST(StepRecord, DevicesGatherTheCountsOfRoutingUnderNccl) {
  EXPECT_EQ(reading_of_counts("auto"), (std::vector<std::string>{"all_gather", "to host"}));
  EXPECT_EQ(reading_of_counts("host"), (std::vector<std::string>{"to host", "all_gather"}));
}

// On a device, the exchanges of a chunked pass run concurrently with its kernels, so kernels must wait for the
// exchanges.
TEST(StepRecord, HasTheWaitsForCommunicationOnADevice) {
  const std::vector<std::string> chunks{"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"};
  Recipe recipe = recipe_with(chunks);
  recipe.device = device::DeviceKind::emulated;
  const StepRecord record = record_of(recipe, 2);
  const auto awaited = [&](size_t compute) {  // true if the operation waits for communication
    return std::ranges::any_of(record.issues[compute].after,
                               [&](int32_t i) { return record.issues[i].communicates(); });
  };
  size_t waiting = 0, exchanges = 0;
  for (size_t i = 0; i < record.issues.size(); ++i) {
    exchanges += record.issues[i].name == "all_to_all";
    waiting += !record.issues[i].communicates() && awaited(i);
  }
  EXPECT_GT(exchanges, 0U);
  EXPECT_GT(waiting, 0U);
}

}  // namespace
}  // namespace hexad::tests
