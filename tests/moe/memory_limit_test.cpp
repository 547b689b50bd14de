// Memory reuse, and schedule.moe.memory_limit: the buffers of a pass remain within the limit for balanced and for
// skewed routing.
#include "layers/moe/schedule/memory_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "framework/base/tolerance.h"
#include "framework/schedule/executor.h"
#include "framework/schedule/graph_runner.h"
#include "parallel/comm/self_group.h"
#include "tests/moe/plain_pass.h"
#include "tests/moe/scheduled_layer.h"
#include "tests/training/test_folder.h"

namespace hexad::tests {

using namespace base;
namespace {

// Runs passes. Records the largest amount of memory that a pass adds, and the largest number of chunks of a pass.
class PassMeter final : public schedule::GraphRunner {
 public:
  void run(const schedule::PassName&, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    const auto before = context.allocator()->stats();
    context.allocator()->reset_peaks();
    schedule::execute(graph, context);
    const auto after = context.allocator()->stats();
    int64_t sum = 0;  // bytes, without parameter gradients, which the first backward creates for all passes
    for (Category c : {Category::activation, Category::temporary, Category::communication})
      sum += after.peak_in(c) - before.used_in(c);
    bytes = std::max(bytes, sum);
    const auto tasks = graph.tasks();
    chunks = std::max<int64_t>(chunks, std::count_if(tasks.begin(), tasks.end(), [](const schedule::Task& t) {
                                 return t.spec.name.starts_with("experts[");
                               }));
  }
  int64_t bytes = 0, chunks = 0;
};

// Counts the tasks that wait for a task of the previous chunk. In forward, `experts` waits for `activations.offload`.
// In backward, `activations.fetch` waits for `experts`.
class ChunkWaits final : public schedule::GraphRunner {
 public:
  void run(const schedule::PassName& pass, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    schedule::execute(graph, context);
    if (pass.kind == schedule::PassKind::forward)
      forward += waits(graph, "experts", "activations.offload");
    else
      backward += waits(graph, "activations.fetch", "experts");
  }
  int64_t forward = 0, backward = 0;

 private:
  static int64_t waits(const schedule::TaskGraph& graph, const std::string& waiting, const std::string& awaited) {
    const auto tasks = graph.tasks();
    int64_t found = 0;
    for (const schedule::Task& task : tasks)
      for (int chunk = 1; chunk < 16; ++chunk)
        if (task.spec.name == cat(waiting, "[", chunk, "]"))
          found += std::ranges::count_if(task.after, [&](schedule::TaskId before) {
            return tasks[before].spec.name == cat(awaited, "[", chunk - 1, "]");
          });
    return found;
  }
};

// Returns the bytes that chunks of one token need, in the layer of tests/moe/scheduled_layer.h on four ranks.
int64_t least_limit(const Words& changes) {
  const std::string message = message_of(ExitCode::usage, [&] {
    small_recipe(joined({"parallel.ep=4", "model.moe.experts=8", "model.moe.expert_hidden=12"},
                        joined(changes, {"schedule.moe.memory_limit=1"})));
  });
  const std::string before = "the minimum is ";
  const size_t at = message.find(before);
  EXPECT_NE(at, std::string::npos) << message;
  return std::stoll(message.substr(at + before.size()));
}

// MPMoE's memory equation 5 has one buffer for T_M, the activations.
TEST(MemoryReuse, ChunksTakeTurnsInOneBufferOfActivations) {
  for (const auto& [strategy, waits] : {std::pair{"s1", 3}, {"s2", 3}, {"s3", 0}, {"s4", 0}})
    on_ranks(2, [&, strategy = strategy, waits = waits](const comm::ProcessGroup& world) {
      ScheduledLayer layer(world, {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=4",
                                   cat("schedule.moe.memory_reuse=", strategy)});
      ChunkWaits seen;
      layer.layer.run_passes_by(&seen);
      layer.run();
      EXPECT_EQ(seen.forward, waits) << strategy;
      EXPECT_EQ(seen.backward, waits) << strategy;
    });
}

// Returns the task `name` of `g`; null if there is none.
const schedule::Task* task_named(const schedule::TaskGraph& g, const std::string& name) {
  const auto at = std::ranges::find_if(g.tasks(), [&](const schedule::Task& t) { return t.spec.name == name; });
  return at == g.tasks().end() ? nullptr : &*at;
}

std::vector<std::string> awaited_by(const schedule::TaskGraph& g, const schedule::Task& task) {
  std::vector<std::string> names;
  for (const schedule::TaskId before : task.after) names.push_back(g.tasks()[before].spec.name);
  return names;
}

// Inputs of a chunk have 16 features, and activations have 2 x 12. Only activations share one buffer.
TEST(MemoryReuse, InputsAreCopiedWhileExpertsComputeAndActivationsBetweenChunks) {
  using testing::PrintToString;
  struct Expected {
    std::string strategy;
    bool inputs, activations;
  };
  for (const auto& [strategy, inputs, activations] :
       {Expected{"s1", true, true}, {"s2", false, true}, {"s3", true, false}, {"s4", false, false}})
    on_ranks(2, [&, strategy = strategy, inputs = inputs, activations = activations](const comm::ProcessGroup& world) {
      SCOPED_TRACE(strategy);
      ScheduledLayer layer(world, {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3",
                                   cat("schedule.moe.memory_reuse=", strategy)});
      schedule::GraphCollector collector;
      layer.layer.run_passes_by(&collector);
      layer.run();
      ASSERT_EQ(collector.graphs.size(), 2u);
      const schedule::TaskGraph &forward = collector.graphs[0], &backward = collector.graphs[1];
      const schedule::Task *inputs_away = task_named(forward, "inputs.offload[1]"),
                           *away = task_named(forward, "activations.offload[1]"),
                           *inputs_back = task_named(backward, "inputs.fetch[1]"),
                           *back = task_named(backward, "activations.fetch[1]"),
                           *computed = task_named(forward, "experts[1]"),
                           *pulled_back = task_named(backward, "experts[1]");
      ASSERT_EQ(inputs_away != nullptr, inputs) << forward.to_string();
      ASSERT_EQ(away != nullptr, activations) << forward.to_string();
      ASSERT_EQ(inputs_back != nullptr, inputs) << backward.to_string();
      ASSERT_EQ(back != nullptr, activations) << backward.to_string();
      ASSERT_TRUE(computed && pulled_back);
      const std::vector<std::string> before = awaited_by(backward, *pulled_back);
      if (inputs) {
        // The task precedes the experts, so that the compute lane does not delay its issue.
        EXPECT_LT(inputs_away, computed);
        for (const schedule::TaskId arrival : inputs_away->after)
          EXPECT_EQ(std::ranges::count(computed->after, arrival), 1) << forward.to_string();
        EXPECT_EQ(std::ranges::count(awaited_by(forward, *computed), std::string("inputs.offload[1]")), 0)
            << forward.to_string();
        EXPECT_TRUE(inputs_back->after.empty()) << PrintToString(awaited_by(backward, *inputs_back));
        EXPECT_EQ(std::ranges::count(before, std::string("inputs.fetch[1]")), 1) << PrintToString(before);
      }
      if (activations) {
        EXPECT_EQ(awaited_by(forward, *away), std::vector<std::string>{"experts[1]"});
        EXPECT_EQ(awaited_by(backward, *back), std::vector<std::string>{"experts[0]"});
        EXPECT_EQ(std::ranges::count(before, std::string("activations.fetch[1]")), 1) << PrintToString(before);
      }
      if (!inputs || !activations) return;
      EXPECT_EQ(24 * inputs_away->spec.cost.copy_bytes, 16 * away->spec.cost.copy_bytes);
      EXPECT_EQ(inputs_away->spec.cost.copy_bytes, inputs_back->spec.cost.copy_bytes);
    });
}

// With pairs of micro-batches, the rank's thread posts collectives in the usual groups. At the same time, lanes post
// the collectives of tasks that are issued late. Therefore, these tasks need separate groups.
TEST(MemoryReuse, OnlyTasksThatAreIssuedLateCommunicateInGroupsOfLanes) {
  Lab lab;
  const comm::SelfGroup usual, lane_groups;
  moe::PassSettings settings = pass_settings({&usual, &usual, &usual}, 4);
  settings.lane_groups.emplace();
  settings.lane_groups->experts = {&lane_groups, &lane_groups, &lane_groups};
  settings.lane_groups->tensor = &lane_groups;
  const moe::Routes routes{.settings = settings};
  const Tensor like = Tensor::empty({1, 4}, Dtype::f64, lab.context, Category::temporary);
  for (const auto& [buffers, expected] :
       {std::pair(moe::Buffers::bounded, &lane_groups), std::pair(moe::Buffers::own, &usual)}) {
    const moe::PassGraph g(routes, like, buffers);
    EXPECT_EQ(&g.all_to_all_group, expected);
    EXPECT_EQ(&g.etp, expected);
    EXPECT_EQ(&g.tensor, expected);
  }
}

constexpr int sequences = 4, length = 16;

struct Case {
  std::string name;
  Words schedule, model{};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class MemoryLimit : public testing::TestWithParam<Case> {};

TEST_P(MemoryLimit, HoldsUnderBalancedAndSkewedRouting) {
  const Scratch scratch;
  std::ofstream(scratch / "routes") << "5 4\n";
  const int64_t least = least_limit(joined(GetParam().schedule, GetParam().model));
  const std::vector<Words> routings{{"model.moe.routing=balanced"},
                                    {"model.moe.routing=zipf", "model.moe.zipf_exponent=3"},
                                    {"model.moe.routing=trace", "model.moe.trace=" + scratch / "routes"}};
  for (const Words& routing : routings)
    for (const int64_t limit : {least, 3 * least, 40 * least}) {
      SCOPED_TRACE(cat(routing.front(), ", at most ", limit));
      const Words common = joined(joined({"parallel.ep=4"}, routing), GetParam().model);
      const Words limited = joined(joined(common, GetParam().schedule), {cat("schedule.moe.memory_limit=", limit)});
      on_ranks(4, [&](const comm::ProcessGroup& world) {
        const auto plain = ScheduledLayer(world, common).run(sequences, length);
        ScheduledLayer layer(world, limited);
        PassMeter meter;
        layer.layer.run_passes_by(&meter);
        const auto result = layer.run(sequences, length);
        EXPECT_GT(meter.bytes, 0);
        EXPECT_LE(meter.bytes, limit);
        const double rounding = tolerance(Dtype::f64, 4096);
        expect_close(plain.y, result.y, rounding);
        expect_close(plain.dx, result.dx, rounding);
        for (size_t i = 0; i < plain.gradients.size(); ++i)
          expect_close(plain.gradients[i], result.gradients[i], rounding, Zeros::expected);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(
    , MemoryLimit,
    testing::Values(Case{"S1", {"schedule.moe.memory_reuse=s1"}}, Case{"S2", {"schedule.moe.memory_reuse=s2"}},
                    Case{"S1Wide", {"schedule.moe.memory_reuse=s1"}, {"model.moe.expert_hidden=80"}},
                    Case{"S2Wide", {"schedule.moe.memory_reuse=s2"}, {"model.moe.expert_hidden=80"}},
                    Case{"S3", {"schedule.moe.memory_reuse=s3"}}, Case{"S4", {"schedule.moe.memory_reuse=s4"}},
                    Case{"S4Gelu", {"schedule.moe.memory_reuse=s4"}, {"model.moe.expert=gelu"}}),
    [](const auto& c) { return c.param.name; });

TEST(MemoryLimitChunks, IncreaseWithTheLoadOfTheRouting) {
  const Scratch scratch;
  std::ofstream(scratch / "routes") << "5 4\n";
  const Words limited{"parallel.ep=4", "schedule.moe.memory_reuse=s4",
                      cat("schedule.moe.memory_limit=", 20 * least_limit({"schedule.moe.memory_reuse=s4"}))};
  const auto chunks_of = [&](const Words& routing) {
    int64_t chunks = 0;
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      ScheduledLayer layer(world, joined(limited, routing));
      PassMeter meter;
      layer.layer.run_passes_by(&meter);
      layer.run(sequences, length);
      if (world.rank() == 0) chunks = meter.chunks;  // all ranks have the same number, even ranks without rows
    });
    return chunks;
  };
  const int64_t balanced = chunks_of({"model.moe.routing=balanced"});
  const int64_t skewed = chunks_of({"model.moe.routing=trace", "model.moe.trace=" + scratch / "routes"});
  EXPECT_LT(balanced, skewed);
  EXPECT_LE(skewed, sequences * length);
}

TEST(MemoryLimitCheck, NeedsMemoryReuse) {
  const std::string message = message_of(ExitCode::usage, [] { small_recipe({"schedule.moe.memory_limit=1000000"}); });
  EXPECT_NE(message.find("needs schedule.moe.memory_reuse: s1 to s4"), std::string::npos) << message;
}

// The tp ranks hold the same tokens, but belong to different ep groups. In the ep group of tp rank 1, one rank computes
// twice as many rows as any rank in the other group. Shared experts sum over tp ranks. These sums must not depend on
// the number of chunks.
TEST(MemoryLimitChunks, MayDifferOnRanksThatHoldTheSameTokens) {
  const Scratch scratch;
  std::ofstream routes(scratch / "routes");
  for (int token = 0; token < sequences * length; ++token)
    routes << (token < sequences * length / 2 ? "0 4\n" : "0 1\n");
  routes.close();
  const std::string s4 = "schedule.moe.memory_reuse=s4";
  const Words common{"parallel.tp=2",
                     "parallel.ep=2",
                     "parallel.etp=1",
                     "parallel.order=tp-cp-dp-ep-pp",
                     "model.moe.shared_experts=1",
                     "model.moe.routing=trace",
                     cat("model.moe.trace=", scratch / "routes")};
  const Words limit{s4, cat("schedule.moe.memory_limit=", 3 * least_limit({s4}))};
  for (const char* duplicates : {"drop", "pause_after_gate"})
    for (const char* shared : {"after", "beside"}) {
      SCOPED_TRACE(cat(duplicates, ", shared ", shared));
      const Words limited = joined(joined(common, limit),
                                   {cat("schedule.moe.duplicates=", duplicates), cat("schedule.moe.shared=", shared)});
      std::vector<int64_t> chunks(4);
      on_ranks(4, [&](const comm::ProcessGroup& world) {
        const auto plain = ScheduledLayer(world, common).run(sequences, length);
        ScheduledLayer layer(world, limited);
        PassMeter meter;
        layer.layer.run_passes_by(&meter);
        const auto result = layer.run(sequences, length);
        chunks[world.rank()] = meter.chunks;
        const double rounding = tolerance(Dtype::f64, 4096);
        expect_close(plain.y, result.y, rounding);
        expect_close(plain.dx, result.dx, rounding);
        for (size_t i = 0; i < plain.gradients.size(); ++i)
          expect_close(plain.gradients[i], result.gradients[i], rounding, Zeros::expected);
      });
      EXPECT_EQ(chunks[0], chunks[2]) << "ranks 0 and 2 are an ep group";
      EXPECT_EQ(chunks[1], chunks[3]) << "ranks 1 and 3 are an ep group";
      EXPECT_LT(chunks[0], chunks[1]);
    }
}

TEST(MemoryLimitCheck, RefusesRowsThatAreGatheredChunkByChunk) {
  Lab lab;
  const comm::SelfGroup self;
  moe::PassSettings settings = pass_settings({&self, &self, &self}, 4);
  settings.tensor_ep_ranks = {0};
  settings.schedule.duplicates = moe::Duplicates::drop;
  // These are chunks of experts. With chunks of tokens, a device that runs ahead would make the routing plan itself and
  // gather no rows.
  settings.schedule.chunk_by = moe::ChunkBy::experts, settings.schedule.chunks = 2;
  settings.schedule.memory_limit = 4096;
  const auto verdict = [&](moe::ReuseStrategy strategy) -> std::string {
    settings.schedule.memory_reuse = strategy;
    try {
      moe::make_routes(Tensor::from<int32_t>(std::vector<int32_t>{0, 1, 2, 3}, {4, 1}, lab.context), moe::Held::alike,
                       settings, {.hidden = 4, .width = 4, .gated = true}, Dtype::f64, lab.stream());
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(verdict(moe::ReuseStrategy::s4), "accepted");
  EXPECT_NE(verdict(moe::ReuseStrategy::none).find("gathered chunk by chunk"), std::string::npos);
}

}  // namespace
}  // namespace hexad::tests
