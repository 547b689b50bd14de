// Gradients are summed over the ranks that hold a copy, bucket by bucket, in one order everywhere.
#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"
#include "parallel/dp/gradient_buckets.h"
#include "tests/support/compare.h"

namespace hexad::tests {
namespace {

using namespace autograd;

constexpr int64_t sizes[] = {3, 1, 8, 5};

// Parameters "p0" .. "p3", and "e", whose experts are spread over ep.
struct Model {
  Model(const comm::ProcessGroup& world, int ep) : mesh(world, {.dp = world.size(), .ep = ep}) {
    for (int64_t n : sizes) add({n}, {});
    add({4, 3}, {MeshView::expert, {{Axis::ep, 0, ep, mesh.coordinate(Axis::ep)}}});
  }
  void add(const Shape& shape, const Placement& placement) {
    all.push_back(&parameters.add({.name = cat("p", all.size()),
                                   .global_shape = shape,
                                   .placement = placement,
                                   .dtype = Dtype::f64,
                                   .init = {}}));
  }
  // Whole numbers: their sums are exact.
  void contribute(size_t i, double value) {
    kernels::kernels(context).pointwise.fill(context.compute(), all[i]->gradient_to_add(context.compute()), value);
  }
  void expect(size_t i, double value) {
    for (double g : values_of(all[i]->gradient())) EXPECT_EQ(g, value) << all[i]->name();
  }

  device::DeviceContext context{{.poison = true}};
  mesh::Mesh mesh;
  ParameterSet parameters{context};
  std::vector<Parameter*> all;
};

TEST(GradientBuckets, SumDenseGradientsOverAllRanksAndExpertsOverTheirReplicas) {
  for (const int64_t bucket_bytes : {int64_t{1}, int64_t{48}, int64_t{1} << 20})
    comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
      Model m(world, 2);
      dp::GradientBuckets buckets(m.parameters, m.mesh, bucket_bytes);
      for (int step = 0; step < 2; ++step) {
        for (Parameter* p : m.all) p->clear_gradient();
        for (size_t i = m.all.size(); i-- > 0;) {
          m.contribute(i, static_cast<double>(10 * world.rank()) + static_cast<double>(i));
          buckets.ready(*m.all[i], m.context.compute());
        }
        buckets.finish(m.context.compute());
        for (size_t i = 0; i < 4; ++i) m.expect(i, 60 + 4 * static_cast<double>(i));
        // Ranks 0, 2 and 1, 3 hold the same experts.
        m.expect(4, (world.rank() % 2 == 0 ? 20 : 40) + 8);
      }
    });
}

TEST(GradientBuckets, TheirNumberFollowsFromTheirSize) {
  comm::with_ranks(1, [](const comm::ProcessGroup& world) {
    Model m(world, 1);
    EXPECT_EQ(dp::GradientBuckets(m.parameters, m.mesh, 1).count(), 5u);
    // Dense, from the last: 5 + 8 elements are 104 bytes, 1 + 3 are left. Experts apart.
    EXPECT_EQ(dp::GradientBuckets(m.parameters, m.mesh, 100).count(), 3u);
    EXPECT_EQ(dp::GradientBuckets(m.parameters, m.mesh, 1 << 20).count(), 2u);
  });
}

// Ranks finish their parameters in different orders; the collectives still match.
TEST(GradientBuckets, RanksMayBecomeReadyInAnyOrder) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Model m(world, 2);
    dp::GradientBuckets buckets(m.parameters, m.mesh, 1);
    for (size_t n = 0; n < m.all.size(); ++n) {
      const size_t i = world.rank() == 0 ? n : m.all.size() - 1 - n;
      m.contribute(i, 1);
      buckets.ready(*m.all[i], m.context.compute());
    }
    buckets.finish(m.context.compute());
    for (size_t i = 0; i < 4; ++i) m.expect(i, 2);
    m.expect(4, 1);
  });
}

TEST(GradientBuckets, R3_AParameterNobodyUsedGetsZeroNotGarbage) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Model m(world, 1);
    dp::GradientBuckets buckets(m.parameters, m.mesh, 48);
    if (world.rank() == 0) m.contribute(1, 7), buckets.ready(*m.all[1], m.context.compute());
    buckets.finish(m.context.compute());
    m.expect(1, 7);  // the other rank adds nothing
    for (size_t i : {0u, 2u, 3u, 4u}) m.expect(i, 0);
  });
}

TEST(GradientBuckets, BecomingReadyTwiceInAStepIsABug) {
  comm::with_ranks(1, [](const comm::ProcessGroup& world) {
    Model m(world, 1);
    dp::GradientBuckets buckets(m.parameters, m.mesh, 1);
    m.contribute(0, 1);
    buckets.ready(*m.all[0], m.context.compute());
    EXPECT_THROW(buckets.ready(*m.all[0], m.context.compute()), std::logic_error);
  });
}

TEST(GradientBuckets, AParameterOfAnotherModelIsABug) {
  comm::with_ranks(1, [](const comm::ProcessGroup& world) {
    Model m(world, 1), other(world, 1);
    dp::GradientBuckets buckets(m.parameters, m.mesh, 1);
    EXPECT_THROW(buckets.ready(*other.all[0], m.context.compute()), std::logic_error);
  });
}

}  // namespace
}  // namespace hexad::tests
