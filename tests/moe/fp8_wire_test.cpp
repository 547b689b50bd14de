// Tests rows that are sent as fp8: their loss of accuracy, which does not depend on the chunks, and their bytes.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/fp8.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {
namespace {

// Returns || a - b || / || a ||.
double relative_distance(const Tensor& a, const Tensor& b) {
  const auto x = values_of(a), y = values_of(b);
  double difference = 0, whole = 0;
  for (size_t i = 0; i < x.size(); ++i) difference += (x[i] - y[i]) * (x[i] - y[i]), whole += x[i] * x[i];
  return std::sqrt(difference / whole);
}

// Each of the two transfers changes a value by at most 1/16 of the value. Values that are tiny compared with the
// largest value of their row may change more. The function between the transfers is smooth, and errors of single values
// are independent. Therefore, the relative distance of a tensor is well below the sum of the two bounds.
constexpr double two_ways = 2 * base::e4m3::relative_error;

void expect_near_under_fp8(const Words& overrides) {
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    const auto exact = ScheduledLayer(world, overrides).run();
    const auto rounded = ScheduledLayer(world, joined(overrides, {"schedule.moe.wire=fp8"})).run();
    const double y = relative_distance(exact.y, rounded.y), dx = relative_distance(exact.dx, rounded.dx);
    EXPECT_GT(y, 0) << "nothing was rounded";
    EXPECT_LT(y, two_ways);
    EXPECT_GT(dx, 0) << "nothing was rounded";
    EXPECT_LT(dx, two_ways);
    EXPECT_EQ(exact.statistics.counts, rounded.statistics.counts);  // routing precedes the transfer of rows
  });
}

TEST(Fp8Wire, RoundsRowsWithinItsBound) { expect_near_under_fp8({"parallel.ep=4"}); }
TEST(Fp8Wire, StaysWithinItsBoundIfRanksShareExperts) { expect_near_under_fp8({"parallel.tp=2", "parallel.ep=2"}); }
TEST(Fp8Wire, StaysWithinItsBoundInRestoredChunks) {
  expect_near_under_fp8(
      {"parallel.ep=4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3", "schedule.moe.memory_reuse=s4"});
}

TEST(Fp8Wire, StaysWithinItsBoundForTokenRows) {
  expect_near_under_fp8({"parallel.ep=4", "schedule.moe.rows=token"});
  expect_near_under_fp8({"parallel.tp=2", "parallel.ep=2", "schedule.moe.rows=token", "schedule.moe.memory_reuse=s4"});
}

// Rows are rounded one by one, so every chunk and every sender rounds a row in the same way.
TEST(Fp8Wire, DoesNotDependOnTheChunks) {
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    const Words fp8{"parallel.ep=4", "schedule.moe.wire=fp8"};
    const auto whole = ScheduledLayer(world, fp8).run();
    const auto chunks =
        ScheduledLayer(world, joined(fp8, {"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"})).run();
    expect_bitwise(whole.y, chunks.y);
    expect_bitwise(whole.dx, chunks.dx);
  });
}

// A row has 16 values. In f64 these are 128 bytes. In fp8 a row is 16 codes, a scale of 4 bytes and 4 bytes of padding.
// The row of a slot travels to the rank of its expert and back, in forward and in backward. All other traffic is the
// same in both formats.
TEST(Fp8Wire, SendsAByteForEachValueAndOneScale) {
  constexpr int64_t experts_of_rank = 2, saved = 16 * 8 - (16 + 4 + 4);
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    const auto run = [&](const char* wire) {
      ScheduledLayer layer(world, {"parallel.ep=4", wire});
      // A rank's count of sent bytes is complete once all ranks have reached the barrier.
      const auto sent = [&] {
        world.barrier(layer.stream()).wait();
        return world.take(comm::TrafficClass::ep).bytes;
      };
      sent();
      const std::vector<int64_t> counts = layer.run().statistics.counts;
      return std::pair(sent(), counts);
    };
    const auto exact = run("schedule.moe.wire=model"), rounded = run("schedule.moe.wire=fp8");
    EXPECT_EQ(exact.second, rounded.second);

    device::DeviceContext host;
    const std::vector<int64_t> counts = world.all_gather_values(exact.second, device::Device(host));
    const int64_t rank = world.rank(), experts = std::ssize(exact.second);
    ASSERT_EQ(experts, world.size() * experts_of_rank);
    int64_t there = 0, back = 0;  // rows sent to experts of other ranks; rows returned
    for (int64_t i = 0; i < std::ssize(counts); ++i) {
      const bool from_here = i / experts == rank, to_here = i % experts / experts_of_rank == rank;
      if (from_here && !to_here) there += counts[i];
      if (to_here && !from_here) back += counts[i];
    }
    ASSERT_GT(there + back, 0);
    EXPECT_EQ(exact.first - rounded.first, 2 * (there + back) * saved);
  });
}

}  // namespace
}  // namespace hexad::tests
