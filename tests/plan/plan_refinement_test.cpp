// Third stage of a plan's search: other schedules, orders of axes and offload of the best layouts.
#include "tools/plan/plan_refinement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"
#include "tools/plan/plan_search.h"
#include "tools/plan/prices.h"
#include "tools/plan/state_bound.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int64_t ranks = 16;

// On two nodes with a slow network, each all-to-all of 16 ranks takes about as long as the forward pass of the experts.
const std::string with_experts =
    "model: {layers: 2, hidden: 4096, heads: 32, kv_heads: 8, context: 4096, vocab: 1024,\n"
    "        moe: {experts: 16, top_k: 2, expert_hidden: 14336}}\n"
    "batch: {global: 16, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "device: cuda\n"
    "data: {synthetic: true}\n";

const std::string dense =
    "model: {layers: 4, hidden: 4096, heads: 32, context: 512, vocab: 1024}\n"
    "batch: {global: 16, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "data: {synthetic: true}\n";

const std::string small =
    "model: {layers: 8, hidden: 512, heads: 8, kv_heads: 4, context: 512, vocab: 1024,\n"
    "        moe: {experts: 8, top_k: 2, expert_hidden: 512}}\n"
    "batch: {global: 64, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "data: {synthetic: true}\n";

Cluster slow_network() {
  Cluster cluster = two_nodes();
  cluster.machine->network->bandwidth = 10e9;
  return cluster;
}

config::Document document_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return config::parse(yaml, "plan.yaml", overrides);
}

// Layout of a recipe before and after its refinement.
class Refined {
 public:
  Refined(const std::string& yaml, const std::vector<std::string>& overrides, const Cluster& cluster,
          const PlanRequest& request, int64_t most = 100)
      : yaml_(yaml),
        overrides_(overrides),
        request_(request),
        prices_(cluster, static_cast<int>(request.world)),
        rules_(document_of(yaml, overrides), extensions_, request.world),
        before(layout_as_is(document_of(yaml, overrides), extensions_, cluster, request)),
        refinement_(site_),
        after(refinement_.refined(before, most)) {}

  const PlanSite& site() const { return site_; }
  int64_t changes() const { return refinement_.changes(); }
  int64_t untried_changes() const { return refinement_.untried_changes(); }
  const Recipe& recipe() const { return after.candidate.recipe; }

  void expect_trains() const {
    std::vector<std::string> overrides = overrides_;
    for (const auto& [key, value] : after.candidate.settings()) overrides.push_back(key + "=" + value);
    const Recipe read = recipe_of(yaml_, overrides, request_.world);
    EXPECT_EQ(PlanCandidate{read}.settings(), after.candidate.settings());
    // Unlike the refinement, these calls use no shared results.
    const mesh::Layout layout(read.parallel.sizes(), static_cast<int>(request_.world));
    EXPECT_EQ(forecast_step(read, extensions_, layout, prices_).seconds, after.step.seconds);
    EXPECT_EQ(estimate_memory(read, extensions_, request_.world).total, after.memory.total);
  }

 private:
  const std::string yaml_;
  const std::vector<std::string> overrides_;
  const PlanRequest request_;
  const train::Extensions extensions_;
  const StepPrices prices_;
  LayoutRules rules_;
  const PlanSite site_{.rules = rules_,
                       .extensions = extensions_,
                       .prices = prices_,
                       .request = request_,
                       .memory = 80e9,
                       .host_memory = 1e12,
                       .shared = std::make_shared<SharedByRuns>()};

 public:
  const PlannedLayout before;

 private:
  PlanRefinement refinement_;

 public:
  const PlannedLayout after;
};

// Returns all changes of the recipe of `r`, including illegal ones.
std::vector<Recipe> changed_recipes(const Refined& r) {
  std::vector<Recipe> all;
  for (const ChangesOfKey& key : changes_by_key())
    for (Recipe& c : key.changed_recipes(r.recipe(), r.site())) all.push_back(std::move(c));
  return all;
}

bool has_order(const Recipe& r) { return r.parallel.order.has_value(); }

TEST(PlanRefinement, ExampleExchangesAboutAsLongAsItsExpertsCompute) {
  const Prices prices(slow_network());
  constexpr double rows = 2 * 4096, hidden = 4096, width = 14336;  // two slots for each token of a sequence
  const double exchange = prices.collective(Collective::all_to_all, {.ranks = ranks, .nodes = 2, .ranks_per_node = 8},
                                            rows * hidden * 2 * (ranks - 1) / ranks);
  const double experts = prices.product({.rows = rows, .inputs = hidden, .outputs = 2 * width}) +
                         prices.product({.rows = rows, .inputs = width, .outputs = hidden});
  EXPECT_GT(exchange, 0.67 * experts);
  EXPECT_LT(exchange, 1.5 * experts);
}

TEST(PlanRefinement, FindsAFasterSchedule) {
  // Only chunks of a micro-batch can overlap if a step has one micro-batch.
  const Refined r(with_experts, {"parallel.ep=16", "parallel.zero=1"}, slow_network(), {.world = ranks});
  EXPECT_LT(r.after.step.seconds, 0.97 * r.before.step.seconds);
  EXPECT_TRUE(r.recipe().schedule.moe.settled().overlaps()) << r.after.candidate.to_string(ranks);
  EXPECT_NE(r.after.candidate.to_string(ranks).find("chunk_by "), std::string::npos)
      << r.after.candidate.to_string(ranks);
  r.expect_trains();
}

TEST(PlanRefinement, FindsTheOverlapOfMicroBatches) {
  const Refined r(with_experts, {"parallel.ep=16", "parallel.zero=1", "batch.global=64"}, slow_network(),
                  {.world = ranks}, 1);
  EXPECT_LT(r.after.step.seconds, r.before.step.seconds);
  EXPECT_EQ(r.recipe().schedule.pipeline.overlap, pp::Overlap::micro_batches)
      << "the overlap of micro-batches is the first legal change";
  r.expect_trains();
}

TEST(PlanRefinement, FindsAnOrderWithDataParallelRanksOnANode) {
  // In the usual order, stages are neighbours and gradients are summed over both nodes.
  const Refined r(dense, {"parallel.pp=2"}, slow_network(), {.world = ranks});
  EXPECT_LT(r.after.step.seconds, r.before.step.seconds);
  ASSERT_TRUE(r.recipe().parallel.order);
  const mesh::Layout layout(r.recipe().parallel.sizes(), ranks);
  EXPECT_EQ(layout.members(base::Axis::dp, 0), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (const auto& [key, value] : r.after.candidate.settings()) EXPECT_FALSE(key.starts_with("schedule.moe.")) << key;
  r.expect_trains();
}

TEST(PlanRefinement, KeepsTheOrderOnRequest) {
  const Refined r(dense, {"parallel.pp=2"}, slow_network(), {.world = ranks, .orders = false});
  EXPECT_FALSE(r.recipe().parallel.order);
  EXPECT_TRUE(std::ranges::none_of(changed_recipes(r), has_order));
}

TEST(PlanRefinement, TriesNoOrderUnderTheMemoryObjective) {
  const Refined r(dense, {"parallel.pp=2"}, slow_network(), {.world = ranks, .objective = Objective::memory}, 0);
  EXPECT_TRUE(std::ranges::none_of(changed_recipes(r), has_order));
}

TEST(PlanRefinement, TriesNoOrderOnOneNode) {
  const Refined r(dense, {"parallel.pp=2"}, two_nodes(), {.world = 8});
  EXPECT_GT(r.changes(), 0);
  EXPECT_FALSE(r.recipe().parallel.order);
  EXPECT_TRUE(std::ranges::none_of(changed_recipes(r), has_order));
}

TEST(PlanRefinement, TriesOtherPipelines) {
  using pp::PipelineKind;
  using Pipelines = std::vector<std::pair<PipelineKind, int64_t>>;
  const auto pipelines = [](const std::string& stages, const std::string& kind, const std::string& virtual_stages) {
    const Refined r(dense,
                    {"parallel.pp=" + stages, "schedule.pipeline.kind=" + kind,
                     "schedule.pipeline.virtual_stages=" + virtual_stages},
                    two_nodes(), {.world = 8}, 0);
    Pipelines all;
    for (const Recipe& c : changed_recipes(r)) {
      const pp::PipelineConfig& now = r.recipe().schedule.pipeline;
      if (const pp::PipelineConfig& p = c.schedule.pipeline;
          p.kind != now.kind || p.virtual_stages != now.virtual_stages)
        all.emplace_back(p.kind, p.virtual_stages);
    }
    return all;
  };
  EXPECT_EQ(pipelines("2", "1f1b", "2"), (Pipelines{{PipelineKind::zb_v, 2},
                                                    {PipelineKind::dualpipe_v, 2},
                                                    {PipelineKind::interleaved, 4},
                                                    {PipelineKind::interleaved, 2},
                                                    {PipelineKind::zb_h1, 2}}));
  EXPECT_EQ(pipelines("2", "interleaved", "2"), (Pipelines{{PipelineKind::zb_v, 2},
                                                           {PipelineKind::dualpipe_v, 2},
                                                           {PipelineKind::interleaved, 4},
                                                           {PipelineKind::zb_h1, 2},
                                                           {PipelineKind::one_f_one_b, 2}}));
  EXPECT_EQ(pipelines("1", "1f1b", "2"), Pipelines{});
}

TEST(PlanRefinement, FindsAFasterPipeline) {
  const Refined r(dense, {"parallel.pp=2"}, slow_network(), {.world = ranks, .orders = false});
  EXPECT_LT(r.after.step.seconds, r.before.step.seconds);
  EXPECT_NE(r.recipe().schedule.pipeline.kind, pp::PipelineKind::one_f_one_b);
  r.expect_trains();
}

TEST(PlanRefinement, TriesOtherKindsOfContextParallelism) {
  using cp::ContextKind;
  const auto kinds = [](const std::vector<std::string>& layout) {
    const Refined r(dense, layout, two_nodes(), {.world = 8}, 0);
    std::vector<ContextKind> all;
    for (const Recipe& c : changed_recipes(r))
      if (c.parallel.cp_kind != r.recipe().parallel.cp_kind) all.push_back(c.parallel.cp_kind);
    return all;
  };
  EXPECT_EQ(kinds({"parallel.cp=2", "parallel.cp_kind=ulysses"}),
            (std::vector{ContextKind::ring, ContextKind::all_gather}));
  EXPECT_EQ(kinds({"parallel.pp=2"}), std::vector<ContextKind>{}) << "cp is 1";
}

TEST(PlanRefinement, FindsAFasterKindOfContextParallelism) {
  const std::vector<std::string> layout{"parallel.cp=8", "model.context=8192", "parallel.cp_kind=all_gather"};
  const Refined r(dense, layout, two_nodes(), {.world = ranks, .orders = false});
  EXPECT_LT(r.after.step.seconds, r.before.step.seconds);
  EXPECT_NE(r.recipe().parallel.cp_kind, cp::ContextKind::all_gather);
  r.expect_trains();
}

TEST(PlanRefinement, TriesLargerAndSmallerBuckets) {
  const auto sizes = [](const Recipe& recipe) {
    const Refined r(dense, {"parallel.pp=2"}, two_nodes(), {.world = 8}, 0);
    std::vector<int64_t> all;
    for (const ChangesOfKey& key : changes_by_key())
      for (const Recipe& c : key.changed_recipes(recipe, r.site()))
        if (c.distributed.bucket_bytes) all.push_back(*c.distributed.bucket_bytes);
    return all;
  };
  Recipe recipe = Refined(dense, {"parallel.pp=2"}, two_nodes(), {.world = 8}, 0).recipe();
  EXPECT_EQ(sizes(recipe), (std::vector<int64_t>{16 << 20, 1 << 20})) << "auto is 4 MiB on CPUs";
  recipe.parallel.pp = 8;
  EXPECT_EQ(sizes(recipe), std::vector<int64_t>{}) << "no two ranks hold the same weights";
}

TEST(PlanRefinement, TriesFewLegalOrders) {
  const Refined r(small, {"parallel.pp=2", "parallel.ep=4", "parallel.tp=2"}, two_nodes(), {.world = ranks}, 0);
  int orders = 0;
  for (const ChangesOfKey& key : changes_by_key())
    for (const Recipe& c : key.changed_recipes(r.recipe(), r.site())) {
      if (c.parallel.order == r.recipe().parallel.order) continue;
      ++orders;
      EXPECT_FALSE(r.site().rules.broken(c)) << *c.parallel.order;
    }
  EXPECT_GT(orders, 0);
  EXPECT_LT(orders, 12) << "only a few of the 120 orders are tried";
}

TEST(PlanRefinement, TriesAtMostTheAllowedChanges) {
  for (const int64_t most : {0, 3}) {
    const Refined r(small, {"parallel.ep=8"}, two_nodes(), {.world = ranks}, most);
    EXPECT_EQ(r.changes(), most);
    EXPECT_GT(r.untried_changes(), 0);
  }
  const Refined r(dense, {"parallel.pp=2"}, two_nodes(), {.world = 8});
  EXPECT_LT(r.changes(), 100);
  EXPECT_EQ(r.untried_changes(), 0) << "the limit of 100 changes is not reached";
}

TEST(PlanRefinement, NeverMakesALayoutWorse) {
  for (const Objective objective : {Objective::time, Objective::memory})
    for (const char* layout :
         {"parallel.ep=1", "parallel.ep=8", "parallel={pp: 2, ep: 4}", "parallel={tp: 2, ep: 2}"}) {
      const Refined r(small, {layout}, two_nodes(), {.world = ranks, .objective = objective}, 12);
      EXPECT_LE(goal(objective, r.after.step.seconds, r.after.memory.total),
                goal(objective, r.before.step.seconds, r.before.memory.total))
          << layout;
      r.expect_trains();
    }
}

TEST(PlanRefinement, OffloadsForLessMemory) {
  const PlanRequest request{.world = ranks, .objective = Objective::memory};
  const Refined r(small, {"parallel.ep=8"}, two_nodes(), request);
  EXPECT_LT(r.after.memory.total, r.before.memory.total);
  EXPECT_EQ(r.recipe().offload.optimizer, optim::StateOffload::file);
  r.expect_trains();
}

TEST(PlanRefinement, CountsNoLayoutThatCannotBeSimulatedEither) {
  for (const bool has_peak : {true, false}) {
    Cluster cluster = two_nodes();
    if (!has_peak) cluster.machine->peak.bf16.reset();
    const train::Extensions extensions;
    const PlanRequest request{.world = 1, .objective = Objective::memory};
    const StepPrices prices(cluster, 1);
    LayoutRules rules(document_of(small), extensions, 1);
    const PlanSite site{.rules = rules,
                        .extensions = extensions,
                        .prices = prices,
                        .request = request,
                        .memory = 80e9,
                        .host_memory = 0};
    const PlannedLayout layout{.candidate = {recipe_of(small, {}, 1)}, .composed = {}};
    PlanRefinement changed(site), offloaded(site);
    changed.smallest_that_fit({layout});
    EXPECT_EQ(changed.too_large_for_host() > 0, has_peak);
    offloaded.made_to_fit(layout);
    EXPECT_EQ(offloaded.too_large_for_host() > 0, has_peak);
  }
}

TEST(PlanRefinement, RemovesAnUnneededOffload) {
  const Refined r(small, {"parallel.ep=8", "offload.optimizer=file"}, two_nodes(), {.world = ranks});
  EXPECT_LT(r.after.step.seconds, r.before.step.seconds);
  EXPECT_FALSE(r.recipe().offload.any());
}

// Returns a cluster whose ranks have too little memory for any layout of `small` on one rank without offload.
Cluster too_small_without_offload() {
  const auto bytes = [](const std::vector<std::string>& overrides) {
    return estimate_memory(recipe_of(small, overrides, 1), {}, 1).total;
  };
  const double kept = bytes({"recompute=block"});
  const double offloaded = bytes({"recompute=block", "offload.optimizer=file"});
  EXPECT_LT(offloaded, 0.7 * kept);
  Cluster cluster = two_nodes();
  cluster.machine->memory = config::ByteSize(static_cast<int64_t>((0.3 * kept + 0.7 * offloaded) / 0.94));
  return cluster;
}

TEST(Plan, OffloadsIfNoLayoutFitsOtherwise) {
  const Cluster cluster = too_small_without_offload();
  const Plan plan = search_plan(document_of(small), recipe_of(small), {}, cluster, {.world = 1, .wanted = 3});
  ASSERT_FALSE(plan.best.empty());
  EXPECT_EQ(plan.too_large, plan.legal);
  EXPECT_EQ(plan.simulated, 0);
  for (const PlannedLayout& l : plan.best) {
    EXPECT_TRUE(l.candidate.recipe.offload.any());
    EXPECT_LE(l.memory.total, plan.memory);
    EXPECT_NE(l.candidate.to_string(1).find("offload optimizer"), std::string::npos) << l.candidate.to_string(1);
  }
}

TEST(Plan, OffloadsAtMostTheMemoryOfTheHost) {
  Cluster cluster = too_small_without_offload();
  cluster.machine->host_memory = config::ByteSize(1 << 20);
  const Plan plan = search_plan(document_of(small), recipe_of(small), {}, cluster, {.world = 1, .wanted = 3});
  EXPECT_TRUE(plan.best.empty());
  EXPECT_GT(plan.too_large_for_host, 0);
}

TEST(Plan, CountsLayoutsThatAreRefusedBecauseTheHostMemoryIsUnknown) {
  Cluster cluster = two_nodes();
  const auto refused = [&] {
    const PlanRequest request{.world = 1, .objective = Objective::memory, .wanted = 1};
    return search_plan(document_of(small), recipe_of(small), {}, cluster, request).too_large_for_host;
  };
  EXPECT_EQ(refused(), 0) << "the host has room for all tensors";
  cluster.machine->host_memory.reset();
  EXPECT_GT(refused(), 0);
  EXPECT_EQ(limit_of_offload(cluster), "the host memory of a rank (none, because machine.host_memory is not given)");
}

TEST(Plan, IsNeverWorseThanWithoutChanges) {
  const Recipe recipe = recipe_of(small);
  const Plan plan = search_plan(document_of(small), recipe, {}, slow_network(), {.world = ranks, .wanted = 5});
  EXPECT_GT(plan.changes, 0);
  EXPECT_LE(plan.changes, 45);
  const StepPrices prices(slow_network(), ranks);
  for (const PlannedLayout& l : plan.best) {
    Recipe r = l.candidate.recipe;
    r.parallel.order = recipe.parallel.order;
    r.offload = recipe.offload;
    r.schedule.moe = recipe.schedule.moe;
    // A layout with dualpipe_v keeps its overlap here, because the search may choose dualpipe_v only after a change of
    // schedule.pipeline.overlap.
    if (r.schedule.pipeline.kind != pp::PipelineKind::dualpipe_v)
      r.schedule.pipeline.overlap = recipe.schedule.pipeline.overlap;
    const double seconds = forecast_step(r, {}, mesh::Layout(r.parallel.sizes(), ranks), prices).seconds;
    EXPECT_LE(l.step.seconds, seconds) << l.candidate.to_string(ranks);
  }
  EXPECT_TRUE(std::ranges::is_sorted(plan.best, {}, [](const PlannedLayout& l) { return l.step.seconds; }));
}

TEST(Plan, IsDeterministic) {
  const auto search = [] {
    return search_plan(document_of(small), recipe_of(small), {}, slow_network(), {.world = ranks, .wanted = 3});
  };
  const Plan one = search(), two = search();
  EXPECT_EQ(one.changes, two.changes);
  ASSERT_EQ(one.best.size(), two.best.size());
  for (size_t i = 0; i < one.best.size(); ++i) {
    EXPECT_EQ(one.best[i].candidate.settings(), two.best[i].candidate.settings());
    EXPECT_EQ(one.best[i].step.seconds, two.best[i].step.seconds);
  }
}

}  // namespace
}  // namespace hexad::tests
