#include "tools/plan/profile/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "parallel/comm/thread_group.h"
#include "tests/telemetry/temporary_folder.h"
#include "tools/plan/profile/operand_memory.h"
#include "tools/plan/profile/parts.h"
#include "tools/plan/profile/rank_groups.h"
#include "tools/plan/profile/repeated_collective.h"
#include "tools/plan/profile/timer.h"

namespace hexad::plan {
namespace {

using comm::ProcessGroup;

TEST(MeasuredGroups, CoverEveryKindAndSizeOfTheMachine) {
  comm::ThreadOptions nodes;
  nodes.node_of_rank = {0, 0, 0, 0, 1, 1, 1, 1};
  comm::with_ranks(
      8,
      [](const ProcessGroup& world) {
        const auto groups = measured_groups(world);
        ASSERT_EQ(groups.size(), 4u);
        const std::vector<std::tuple<GroupKind, int64_t, int64_t>> expected{
            {GroupKind::intra, 2, 1}, {GroupKind::intra, 4, 1}, {GroupKind::inter, 2, 2}, {GroupKind::all, 8, 2}};
        for (size_t i = 0; i < groups.size(); ++i) {
          EXPECT_EQ(std::tuple(groups[i].kind, groups[i].ranks, groups[i].nodes), expected[i]);
          EXPECT_EQ(groups[i].group->size(), groups[i].ranks);
          EXPECT_EQ(groups[i].group->crosses_nodes(), groups[i].nodes > 1);
        }
      },
      nodes);
}

TEST(MeasuredGroups, NodesInterleavedByTheLauncherAreFound) {
  comm::ThreadOptions nodes;
  nodes.node_of_rank = {0, 1, 0, 1};
  comm::with_ranks(
      4,
      [](const ProcessGroup& world) {
        const auto groups = measured_groups(world);
        for (const GroupKind kind : {GroupKind::intra, GroupKind::inter})
          EXPECT_GT(std::ranges::count(groups, kind, &MeasuredGroup::kind), 0);
        for (const MeasuredGroup& g : groups) EXPECT_EQ(g.group->crosses_nodes(), g.kind != GroupKind::intra);
      },
      nodes);
}

TEST(MeasuredGroups, OneRankHasNoMeasuredGroup) {
  comm::with_ranks(1, [](const ProcessGroup& world) { EXPECT_TRUE(measured_groups(world).empty()); });
}

TEST(MachineOf, NodesMustHaveTheSameNumberOfRanks) {
  comm::ThreadOptions nodes;
  nodes.node_of_rank = {0, 0, 1};
  try {
    comm::with_ranks(
        3, [](const ProcessGroup& world) { nodes_of(world); }, nodes);
    FAIL() << "no error was thrown";
  } catch (const base::Error& e) {
    EXPECT_STREQ(e.what(), "nodes have 1 to 2 ranks; start the same number of ranks on each node");
  }
}

TEST(Exchange, SendsTheReportedBytes) {
  for (int ranks : {2, 3})
    comm::with_ranks(ranks, [](const ProcessGroup& world) {
      device::DeviceContext context;
      const auto group = world.split(0, world.rank(), comm::TrafficClass::ep, "group");
      for (const auto& [operation, name] : enum_names(Collective{}))
        for (int64_t bytes : {1000, 4096}) {
          const Exchange exchange = make_exchange(operation, *group, bytes, context);
          EXPECT_GE(exchange.wire_bytes, bytes) << name;
          EXPECT_LT(exchange.wire_bytes, bytes + 64) << name;
          group->take(comm::TrafficClass::ep);
          exchange.start().wait();
          exchange.start().wait();
          group->barrier(context.compute()).wait();
          EXPECT_EQ(group->take(comm::TrafficClass::ep).bytes, 2 * exchange.wire_bytes) << name;
        }
    });
}

TEST(Operands, AreSeparateAlignedBlocks) {
  device::DeviceContext context;
  const auto place = [](const tensor::Tensor& t) { return reinterpret_cast<uintptr_t>(t.data<float>()); };
  Operands operands(1 << 20, context);
  for (const int64_t numel : {1, 17, 1000}) {
    std::set<uintptr_t> places;
    uintptr_t last = 0;
    for (int i = 0; i < 64; ++i) {
      const tensor::Tensor block = operands.next(numel);
      EXPECT_GE(block.numel(), numel);
      EXPECT_EQ(place(block) % 64, 0u) << numel << " elements, block " << i;
      places.insert(place(block));
      if (place(block) > last && last != 0) {
        EXPECT_GE(place(block) - last, 4 * static_cast<uintptr_t>(numel));
      }
      last = place(block);
    }
    EXPECT_GE(places.size(), 63u) << numel;
  }
  EXPECT_EQ(operands.next(1 << 18).numel(), 1 << 18) << "all of the memory";
  EXPECT_THROW(operands.next((1 << 18) + 1), std::logic_error);
}

TEST(Operands, AreBeyondTheCachesButNotBeyondTheLimit) {
  EXPECT_EQ(bytes_beyond_caches(1, 1 << 20), 1 << 20);
  EXPECT_GE(bytes_beyond_caches(1, 1ll << 40), bytes_beyond_caches(8, 1ll << 40));
  EXPECT_EQ(bytes_beyond_caches(1 << 20, 1ll << 40), 64 << 20);
}

// Profiles every part on two simulated nodes with two ranks each, which are threads. Checks which results exist, but
// not their exact values, which depend on the machine.
TEST(Measure, FillsEveryPartAndAllRanksAgree) {
  comm::ThreadOptions nodes;
  nodes.node_of_rank = {0, 0, 1, 1};
  std::array<std::string, 4> written;
  Cluster cluster;
  std::atomic<int> lines = 0;
  comm::with_ranks(
      4,
      [&](const ProcessGroup& world) {
        ProfileOptions options = quick_profile();
        options.seconds = 0.5, options.largest_bytes = 64 << 10, options.largest_rows = 32;
        options.longest_sequence = 64;
        const Cluster mine = measure(world, options, [&](const std::string&) { ++lines; });
        written[world.rank()] = to_yaml(mine);
        if (world.rank() == 0) cluster = mine;
      },
      nodes);
  for (const std::string& other : written) EXPECT_EQ(other, written.front());
  EXPECT_GT(lines, 0);
  EXPECT_EQ(cluster.measured.nodes, 2);
  EXPECT_EQ(cluster.measured.ranks_per_node, 2);
  EXPECT_EQ(cluster.links.size(), 3u * enum_names(Collective{}).size());
  ASSERT_EQ(cluster.peaks.size(), enum_names(Element{}).size());
  for (const MeasuredPeak& p : cluster.peaks) EXPECT_GT(p.flops_per_second, 0);
  EXPECT_EQ(cluster.products.size(), enum_names(Element{}).size() * enum_names(GemmPass{}).size());
  EXPECT_EQ(cluster.dense_products.size(), enum_names(Element{}).size());
  for (const MeasuredProduct& p : cluster.dense_products) EXPECT_EQ(p.pass, GemmPass::forward);
  EXPECT_EQ(cluster.attention.size(), enum_names(Element{}).size() * enum_names(AttentionPass{}).size());
  for (const MeasuredAttention& a : cluster.attention) EXPECT_EQ(a.points.points.size(), 2u);
  for (const auto& [of, name] : enum_names(KernelClass{})) {
    const auto curves = std::ranges::count(cluster.kernels, of, &MeasuredKernels::of);
    EXPECT_EQ(curves, of == KernelClass::router || of == KernelClass::loss ? 1 : 2) << name;
  }
  for (const MeasuredKernels& k : cluster.kernels) EXPECT_GE(k.points.points.size(), 2u);
  ASSERT_TRUE(cluster.operation);
  EXPECT_LE(*cluster.operation, longest_operation);
  ASSERT_TRUE(cluster.handoff);
  EXPECT_LE(*cluster.handoff, longest_operation);
  EXPECT_EQ(cluster.copies.size(), enum_names(CopyKind{}).size());
  EXPECT_EQ(cluster.slowdowns.size(), 4u * 3u + 4u)
      << "each lane is measured with each other lane, and with all other lanes";
  for (const MeasuredLink& link : cluster.links) EXPECT_EQ(link.points.points.size(), 2u);
  EXPECT_NO_THROW(rates_of(cluster, {.groups = {{"ep", 2, 2}, {"tp", 2, 1}, {"world", 4, 2}}}));
  const telemetry::TemporaryFolder folder;
  telemetry::write_text(folder / "c.yaml", written.front());
  EXPECT_EQ(to_yaml(load_cluster((folder / "c.yaml").string())), written.front());
  const std::string table = profile_table(cluster);
  for (const char* part : {"2 nodes, 2 ranks each", "large bf16 products", "all_to_all", "f32 forward",
                           "f32 forward, 8 heads of 64", "bf16 norm", "f32 optimizer", "host, per operation", "offload",
                           "speed beside", "fit: start + size / rate", "two points"})
    EXPECT_NE(table.find(part), table.npos) << part << " is not in\n" << table;
}

TEST(WaitingCores, FollowFromTheSpeedOfRanksBesideWaitingOnes) {
  Origin four_on_a_core;
  four_on_a_core.ranks_per_node = 4, four_on_a_core.node_cores = 1;
  EXPECT_DOUBLE_EQ(waiting_cores(four_on_a_core, 1, 4, 1), 0) << "one rank is four times as fast as four";
  EXPECT_DOUBLE_EQ(waiting_cores(four_on_a_core, 1, 4, 4), 1)
      << "a waiting rank uses as much of a core as a computing rank";
  EXPECT_DOUBLE_EQ(waiting_cores(four_on_a_core, 1, 4, 2), 1.0 / 3);
  EXPECT_DOUBLE_EQ(waiting_cores(four_on_a_core, 1, 4, 0.5), 0) << "noise";
  EXPECT_DOUBLE_EQ(waiting_cores(four_on_a_core, 1, 4, 9), 1) << "noise";
  Origin threads;
  threads.ranks_per_node = 3, threads.threads = 2, threads.node_cores = 4;
  EXPECT_DOUBLE_EQ(waiting_cores(threads, 2, 6, 4.5), 0.5) << "two ranks need 4 cores, the waiting rank half a core";
}

TEST(Measure, RanksThatShareCoresMeasureHowMuchAWaitingRankUses) {
  for (const int64_t node_cores : {1, 2}) {
    Cluster cluster;
    comm::with_ranks(2, [&](const ProcessGroup& world) {
      ProfileOptions options = quick_profile();
      options.seconds = 0.5, options.largest_bytes = 64 << 10, options.largest_rows = 32, options.longest_sequence = 64;
      options.node_cores = node_cores + world.rank();  // the smallest value of all ranks is used
      const Cluster mine = measure(world, options, [](const std::string&) {});
      if (world.rank() == 0) cluster = mine;
    });
    EXPECT_EQ(cluster.measured.node_cores, node_cores);
    EXPECT_EQ(cluster.measured.by, schedule::MeasuredBy::all_ranks);
    const auto cores = rates_of(cluster, {.groups = {{"ep", 2, 1}}}).cores;
    ASSERT_TRUE(cores);
    EXPECT_EQ(cores->shared(1), node_cores == 1);
    const bool listed = profile_table(cluster).find("the ranks of a node share 1 core;") != std::string::npos;
    EXPECT_EQ(listed, node_cores == 1);
    if (node_cores == 2) {
      EXPECT_EQ(cluster.measured.waiting, 0) << "waiting is not measured if each rank has its own core";
    }
  }
}

TEST(Timer, MeasuresASizeAgainThatIsSlowerForEachByte) {
  comm::with_ranks(1, [](const ProcessGroup& world) {
    device::DeviceContext context;
    const Timer timer(world, context);
    // The first measurement of the second size has one run that estimates the time, and three runs that count. It has
    // no further runs, because a single run already exceeds the time of a measurement. All other runs take no time, so
    // that the result does not depend on the load of the machine.
    static constexpr double disturbance = 0.04;  // seconds
    int runs = 0;
    const auto prepare = [&](int64_t size) -> Timer::Work {
      return {static_cast<double>(size), [&runs, size] {
                if (size == 2000 && runs++ < 4) std::this_thread::sleep_for(std::chrono::duration<double>(disturbance));
              }};
    };
    const std::vector<int64_t> sizes{1000, 2000};
    const Curve curve = timer.curve(sizes, 1e-3, prepare);
    ASSERT_EQ(curve.points.size(), 2u);
    EXPECT_GT(runs, 4);
    EXPECT_LT(curve.points[1].y, disturbance);
  });
}

TEST(Timer, MeasuresASizeAgainThatTakesLongerThanALargerOne) {
  using Points = std::vector<Curve::Point>;
  std::vector<size_t> measured;
  const auto corrected = [&](const Points& points, double seconds) {
    measured.clear();
    return without_falls(points, [&](size_t i) { return measured.push_back(i), seconds; });
  };
  EXPECT_EQ(corrected({{1, 9}, {2, 4}, {3, 5}}, 3), (Points{{1, 3}, {2, 4}, {3, 5}})) << "the first time was noise";
  EXPECT_EQ(measured, std::vector<size_t>{0});
  EXPECT_EQ(corrected({{1, 9}, {2, 4}, {3, 5}}, 6), (Points{{1, 6}, {2, 4}, {3, 5}})) << "a small size may be slower";
  EXPECT_EQ(corrected({{1, 9}, {2, 4}, {3, 5}}, 9), (Points{{1, 8}, {2, 4}, {3, 5}})) << "but not more than twice";
  EXPECT_EQ(corrected({{1, 4}, {2, 4}, {3, 5}}, 1), (Points{{1, 4}, {2, 4}, {3, 5}}));
  EXPECT_TRUE(measured.empty());
}

TEST(Timer, MeasuresTheSmallestAndTheLargestSizeInLittleTime) {
  comm::with_ranks(1, [](const ProcessGroup& world) {
    device::DeviceContext context;
    const Timer timer(world, context);
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size <= 256; size *= 2) sizes.push_back(size);
    // The work does nothing. At every size, a repeat runs it again and again for 1 ms (Work::batch_seconds).
    const auto prepare = [](int64_t size) -> Timer::Work { return {static_cast<double>(size), [] {}, 1e-3}; };
    const Curve few = timer.curve(sizes, 1e-4, prepare);
    ASSERT_EQ(few.points.size(), 2u);
    EXPECT_EQ(few.points.front().x, 1);
    EXPECT_EQ(few.points.back().x, 256);
    EXPECT_EQ(timer.curve(sizes, 60, prepare).points.size(), sizes.size());
  });
}

TEST(Timer, OmitsSizesThatAreRoundedToTheSameSize) {
  comm::with_ranks(1, [](const ProcessGroup& world) {
    device::DeviceContext context;
    const Timer timer(world, context);
    const auto prepare = [](int64_t size) -> Timer::Work { return {static_cast<double>(size / 4 * 4), [] {}}; };
    const Curve curve = timer.curve(std::vector<int64_t>{4, 5, 6, 7, 8, 9}, 60, prepare);
    ASSERT_EQ(curve.points.size(), 2u);
    EXPECT_EQ(curve.points.front().x, 4);
    EXPECT_EQ(curve.points.back().x, 8);
  });
}

TEST(Measure, RanksWithSeveralThreadsMeasureFewerThreads) {
  Cluster cluster;
  comm::with_ranks(2, [&](const ProcessGroup& world) {
    ProfileOptions options = quick_profile();
    options.seconds = 0.5, options.largest_bytes = 64 << 10, options.largest_rows = 32, options.longest_sequence = 64;
    options.threads = 3, options.node_cores = 4;
    const Cluster mine = measure(world, options, [](const std::string&) {});
    if (world.rank() == 0) cluster = mine;
  });
  ASSERT_EQ(cluster.fewer_threads.size(), 2u);
  EXPECT_EQ(cluster.fewer_threads[0].threads, 1);
  EXPECT_EQ(cluster.fewer_threads[1].threads, 2);
  EXPECT_EQ(cluster.slowdowns.size(), 3u * 2u + 3u) << "all-gathers, copies and products";
  EXPECT_EQ(cluster.capped_slowdowns.size(), 2u * 2u + 3u) << "products with each other lane, and with both";
  EXPECT_EQ(cluster.measured.waiting, 0) << "a rank that waits leaves enough cores to the other rank";
  EXPECT_NO_THROW(rates_of(cluster, {.groups = {{"ep", 2, 1}}}));
  const std::string table = profile_table(cluster);
  for (const char* part : {"products on 1 of 3 threads", "products on 2 of 3 threads", "one thread idle"})
    EXPECT_NE(table.find(part), table.npos) << part << " is not in\n" << table;
}

}  // namespace
}  // namespace hexad::plan
