// Division of parameters into buckets, units and shares.
#include "parallel/dp/bucket_plan.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "parallel/comm/thread_group.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

using namespace base;
namespace {

using namespace autograd;
using dp::Zero;

Parameter& add(ParameterSet& set, const std::string& name, const Shape& shape, const Placement& placement = {},
               Dtype dtype = Dtype::f32) {
  return set.add({.name = name, .global_shape = shape, .placement = placement, .dtype = dtype, .init = {}});
}

TEST(BucketPlan, SharesOfTheRanksOfAGroupTileEachParameter) {
  for (const int ranks : {1, 2, 3, 4}) {
    std::mutex mutex;
    std::map<std::string, std::multiset<int64_t>> assigned;
    comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
      device::DeviceContext context{tests::on_test_device()};
      const mesh::Mesh mesh(world, {.dp = ranks});
      ParameterSet set(context);
      for (const int64_t n : {1, 7, 100, 33}) add(set, cat("p", n), {n});
      const dp::BucketPlan plan(set, mesh, {.zero = Zero::states});
      for (const auto& p : set) {
        EXPECT_EQ(p->owned(), p->share());
        EXPECT_EQ(p->owns_share_only(), ranks > 1);
        std::lock_guard lock(mutex);
        for (int64_t i = p->share().begin; i < p->share().end; ++i) assigned[p->name()].insert(i);
      }
    });
    for (const int64_t n : {1, 7, 100, 33}) {
      std::multiset<int64_t> every;
      for (int64_t i = 0; i < n; ++i) every.insert(i);
      EXPECT_EQ(assigned[cat("p", n)], every) << ranks << " ranks";
    }
  }
}

// Shares are equal at all levels of ZeRO, so that norms and updates are bitwise identical.
TEST(BucketPlan, OnlyOwnershipDependsOnTheZeroLevel) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context{tests::on_test_device()};
    const mesh::Mesh mesh(world, {.dp = 2});
    ParameterSet set(context);
    Parameter &a = add(set, "a", {40}), &b = add(set, "b", {100});
    const dp::BucketPlan none(set, mesh, {.zero = Zero::nothing});
    const FlatRange share_a = a.share(), share_b = b.share();
    EXPECT_EQ(a.owned(), (FlatRange{0, 40}));
    for (const Zero zero : {Zero::states, Zero::gradients, Zero::weights}) {
      const dp::BucketPlan plan(set, mesh, {.zero = zero});
      EXPECT_EQ(a.share(), share_a);
      EXPECT_EQ(b.share(), share_b);
      EXPECT_EQ(b.owned(), share_b);
    }
  });
}

TEST(BucketPlan, BucketHasOneGroupAndOneDtype) {
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    device::DeviceContext context{tests::on_test_device()};
    const mesh::Mesh mesh(world, {.dp = 4, .ep = 2});
    ParameterSet set(context);
    add(set, "dense", {8}, {}, Dtype::bf16), add(set, "router", {8});
    add(set, "experts", {4, 8}, {MeshView::expert, {{Axis::ep, 0, 2, mesh.coordinate(Axis::ep)}}}, Dtype::bf16);
    const dp::BucketPlan plan(set, mesh, {.zero = Zero::states});
    ASSERT_EQ(plan.buckets().size(), 3u);
    EXPECT_EQ(plan.buckets()[0].group->size(), 2) << "gradients of experts are summed over two replicas";
    EXPECT_EQ(plan.buckets()[1].dtype, Dtype::f32);
    EXPECT_EQ(plan.buckets()[2].dtype, Dtype::bf16);
    for (const auto& b : plan.buckets()) EXPECT_EQ(b.unit, 0u) << "all parameters belong to one unit";
  });
}

TEST(BucketPlan, BucketOfAGroupOfOneIsNotSharded) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context{tests::on_test_device()};
    const mesh::Mesh mesh(world, {.dp = 2, .ep = 2});
    ParameterSet set(context);
    add(set, "experts", {2, 8}, {MeshView::expert, {{Axis::ep, 0, 2, mesh.coordinate(Axis::ep)}}});
    const dp::BucketPlan plan(set, mesh, {.zero = Zero::weights});
    EXPECT_EQ(plan.buckets()[0].zero, Zero::nothing);
  });
}

// Expert parameters have one more row on one rank. The additional row must not move the bounds of dense buckets on this
// rank.
TEST(BucketPlan, RanksWithUnevenExpertsAgreeOnDenseBuckets) {
  std::mutex mutex;
  std::set<std::vector<int64_t>> dense;
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    device::DeviceContext context{tests::on_test_device()};
    const mesh::Mesh mesh(world, {.dp = 2, .ep = 1, .etp = 2});
    ParameterSet set(context);
    for (int l = 0; l < 6; ++l) {
      add(set, cat("dense", l), {16});
      add(set, cat("experts", l), {7, 32}, {MeshView::expert, {{Axis::etp, 0, 2, mesh.coordinate(Axis::etp)}}});
    }
    const dp::BucketPlan plan(set, mesh, {.zero = Zero::states, .unit_bytes = 1000});
    std::vector<int64_t> sizes;
    for (const auto& b : plan.buckets())
      if (b.group->size() == 2) sizes.push_back(b.elements);
    std::lock_guard lock(mutex);
    dense.insert(sizes);
  });
  EXPECT_EQ(dense.size(), 1u);
}

TEST(BucketPlan, SuitableUnitsGrowWithTheRanksOnGpus) {
  constexpr int64_t mebibyte = 1 << 20;
  for (const int ranks : {1, 2, 64, 4096})
    EXPECT_EQ(dp::suitable_unit_bytes(ranks, false), 4 * mebibyte) << ranks << " ranks";
  EXPECT_EQ(dp::suitable_unit_bytes(1, true), 32 * mebibyte);
  EXPECT_EQ(dp::suitable_unit_bytes(8, true), 32 * mebibyte);
  EXPECT_EQ(dp::suitable_unit_bytes(32, true), 128 * mebibyte);
  EXPECT_EQ(dp::suitable_unit_bytes(1024, true), 512 * mebibyte);
}

}  // namespace
}  // namespace hexad::tests
