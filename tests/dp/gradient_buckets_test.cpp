// Sums of gradients over the ranks that hold a copy, bucket by bucket, in the same order on all ranks. Each rank keeps
// its share of the sums under ZeRO.
#include "parallel/dp/gradient_buckets.h"

#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"
#include "tests/support/compare.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
namespace {

using namespace autograd;
using device::Category;
using dp::Contribution;
using dp::Zero;

constexpr Zero every_zero[] = {Zero::nothing, Zero::states, Zero::gradients, Zero::weights};
constexpr int64_t sizes[] = {3, 1, 8, 5};

// Model with the dense parameters "p0" .. "p3", and with the expert parameter "p4", which is divided over ep.
struct Model {
  Model(const comm::ProcessGroup& world, int ep, int64_t unit_bytes = 1 << 20, Zero zero = Zero::nothing,
        Dtype weights = Dtype::f64)
      : mesh(world, {.dp = world.size(), .ep = ep}), dtype(weights) {
    for (int64_t n : sizes) add({n}, {});
    add({4, 3}, {MeshView::expert, {{Axis::ep, 0, ep, mesh.coordinate(Axis::ep)}}});
    plan.emplace(parameters, mesh, dp::BucketPlan::Options{zero, unit_bytes});
    buckets.emplace(*plan, dtype == Dtype::bf16 ? dp::Sums::rounded : dp::Sums::accumulator);
  }
  void add(const Shape& shape, const Placement& placement) {
    all.push_back(&parameters.add(
        {.name = cat("p", all.size()), .global_shape = shape, .placement = placement, .dtype = dtype, .init = {}}));
  }
  Stream& stream() { return context.compute(); }
  // Adds `value` to all elements of gradient i.
  void contribute(size_t i, double value) {
    const Tensor& g = all[i]->gradient_to_add(stream());
    const Tensor more = Tensor::like(g);
    kernels::kernels(context).pointwise.fill(stream(), more, value);
    kernels::kernels(context).pointwise.add(stream(), g, g, more);
  }
  // Contributes `value` like a product, which writes its result directly into the memory of the next contribution.
  void contribute_product(size_t i, double value) {
    const auto [memory, write] = all[i]->next_gradient_target();
    const auto& k = kernels::kernels(context).pointwise;
    const Tensor more = Tensor::like(memory);
    k.fill(stream(), more, value);
    write == kernels::Write::add ? k.add(stream(), memory, memory, more) : k.copy(stream(), memory, more);
  }
  void ready(size_t i, Contribution contribution = Contribution::last) {
    buckets->ready(*all[i], stream(), contribution);
  }
  void expect(size_t i, double value) {
    for (double g : values_of(all[i]->owned_gradient(stream()))) EXPECT_EQ(g, value) << all[i]->name();
  }
  int64_t used(Category c) const { return context.allocator()->stats().used_in(c); }

  device::DeviceContext context{tests::on_test_device({.poison = true})};
  mesh::Mesh mesh;
  Dtype dtype;  // dtype of the weights
  ParameterSet parameters{context};
  std::vector<Parameter*> all;
  std::optional<dp::BucketPlan> plan;
  std::optional<dp::GradientBuckets> buckets;
};

TEST(GradientBuckets, SumDenseGradientsOverAllRanksAndExpertsOverTheirReplicas) {
  for (const Zero zero : every_zero)
    for (const int64_t unit_bytes : {int64_t{1}, int64_t{48}, int64_t{1} << 20})
      comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
        Model m(world, 2, unit_bytes, zero);
        for (int step = 0; step < 2; ++step) {
          for (Parameter* p : m.all) p->clear_gradient();
          for (size_t i = m.all.size(); i-- > 0;) {
            m.contribute(i, static_cast<double>(10 * world.rank()) + static_cast<double>(i));
            m.ready(i);
          }
          m.buckets->finish(m.stream());
          for (size_t i = 0; i < 4; ++i) m.expect(i, 60 + 4 * static_cast<double>(i));
          // Ranks 0 and 2 hold the same experts. Ranks 1 and 3 hold the other experts.
          m.expect(4, (world.rank() % 2 == 0 ? 20 : 40) + 8);
        }
      });
}

TEST(GradientBuckets, AddUpTheMicroBatchesOfAStep) {
  for (const Zero zero : every_zero)
    comm::with_ranks(3, [&](const comm::ProcessGroup& world) {
      Model m(world, 1, 48, zero);
      for (int step = 0; step < 2; ++step) {
        for (Parameter* p : m.all) p->clear_gradient();
        m.buckets->begin(3);
        for (int micro = 0; micro < 3; ++micro)
          for (size_t i = m.all.size(); i-- > 0;) {
            m.contribute(i, 100 * micro + world.rank());
            m.ready(i, micro == 2 ? Contribution::last : Contribution::more);
          }
        m.buckets->finish(m.stream());
        for (size_t i = 0; i < m.all.size(); ++i) m.expect(i, 3 * 300 + 3 * 3);
      }
    });
}

// The sums are whole numbers that bf16 represents exactly.
TEST(GradientBuckets, RoundedSumsContainEveryMicroBatchOfAStep) {
  using Contribute = void (Model::*)(size_t, double);
  for (const Contribute contribute : {&Model::contribute_product, &Model::contribute})
    for (const Zero zero : every_zero)
      for (const int64_t unit_bytes : {1, 48})
        comm::with_ranks(3, [&](const comm::ProcessGroup& world) {
          Model m(world, 1, unit_bytes, zero, Dtype::bf16);
          for (int step = 0; step < 2; ++step) {
            for (Parameter* p : m.all) p->clear_gradient();
            m.buckets->begin(3);
            for (int micro = 0; micro < 3; ++micro)
              for (size_t i = m.all.size(); i-- > 0;) {
                (m.*contribute)(i, 1 + micro + 4 * world.rank());
                m.ready(i, micro == 2 ? Contribution::last : Contribution::more);
              }
            m.buckets->finish(m.stream());
            for (size_t i = 0; i < m.all.size(); ++i) {
              EXPECT_EQ(m.all[i]->owned_gradient(m.stream()).dtype(), Dtype::bf16);
              m.expect(i, 3 * (1 + 2 + 3) + 3 * (0 + 4 + 8));
            }
          }
        });
}

// Several contributions of a micro-batch are summed in f32. 256 + 3 * 0.5 is 257.5, which bf16 rounds to 258. The sum
// would remain 256 if it were rounded after each addition.
TEST(GradientBuckets, MicroBatchIsRoundedOnce) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Model m(world, 1, 1, Zero::nothing, Dtype::bf16);
    m.buckets->begin(1);
    if (world.rank() == 0)
      for (const double value : {256.0, 0.5, 0.5, 0.5}) m.contribute(0, value);
    m.ready(0);
    m.buckets->finish(m.stream());
    m.expect(0, 258);
  });
}

// A virtual stage may run ahead of another virtual stage in a pipeline with interleaved stages. Here, one virtual stage
// finishes all of its micro-batches before the other stage begins.
TEST(GradientBuckets, ContributionsMayRunAheadOfOtherBuckets) {
  for (const Zero zero : every_zero)
    comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
      Model m(world, 1, 1, zero);
      m.buckets->begin(2);
      for (const auto& stage : {std::vector<size_t>{0, 1}, {4, 3, 2}})
        for (int micro = 0; micro < 2; ++micro)
          for (size_t i : stage) {
            m.contribute(i, 10 * micro + world.rank());
            m.ready(i, micro == 1 ? Contribution::last : Contribution::more);
          }
      m.buckets->finish(m.stream());
      for (size_t i = 0; i < m.all.size(); ++i) m.expect(i, 20 + 2);
    });
}

TEST(GradientBuckets, UnitSizeDeterminesTheirNumber) {
  comm::with_ranks(1, [](const comm::ProcessGroup& world) {
    EXPECT_EQ(Model(world, 1, 1).buckets->count(), 5u);
    // Units are filled from the last parameter on: 12 + 5 elements take 136 bytes, and 8 + 1 + 3 elements remain.
    EXPECT_EQ(Model(world, 1, 100).buckets->count(), 2u);
    EXPECT_EQ(Model(world, 1, 1 << 20).buckets->count(), 1u);
  });
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    EXPECT_EQ(Model(world, 2, 100).buckets->count(), 3u) << "dense and expert parameters have separate buckets";
  });
}

// Ranks that finish their parameters in opposite orders must still call collectives in the same order.
TEST(GradientBuckets, RanksMayFinishTheirParametersInOppositeOrders) {
  for (const Zero zero : every_zero)
    comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
      Model m(world, 2, 1, zero);
      for (size_t n = 0; n < m.all.size(); ++n) {
        const size_t i = world.rank() == 0 ? n : m.all.size() - 1 - n;
        m.contribute(i, 1);
        m.ready(i);
      }
      m.buckets->finish(m.stream());
      for (size_t i = 0; i < 4; ++i) m.expect(i, 2);
      m.expect(4, 1);
    });
}

TEST(GradientBuckets, UnusedParameterGetsZeroNotGarbage) {
  for (const Zero zero : every_zero)
    comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
      Model m(world, 1, 48, zero);
      m.buckets->begin(2);
      for (const auto contribution : {Contribution::more, Contribution::last})
        if (world.rank() == 0) m.contribute(1, 7), m.ready(1, contribution);
      m.buckets->finish(m.stream());
      m.expect(1, 14);  // the other rank contributes nothing
      for (size_t i : {0u, 2u, 3u, 4u}) m.expect(i, 0);
    });
}

TEST(GradientBuckets, OnlyTheGradientsOfAShareRemainInMemoryUnderZero2) {
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    Model whole(world, 1, 1 << 20, Zero::nothing), share(world, 1, 1 << 20, Zero::gradients);
    for (Model* m : {&whole, &share}) {
      for (size_t i = 0; i < m->all.size(); ++i) m->contribute(i, 1), m->ready(i);
      m->buckets->finish(m->stream());
    }
    EXPECT_EQ(4 * share.used(Category::gradient), whole.used(Category::gradient));
  });
}

TEST(GradientBuckets, NegativeBoundOfReductionsThrows) {
  comm::with_ranks(1, [](const comm::ProcessGroup& world) {
    Model m(world, 1, 1);
    EXPECT_THROW(m.buckets->bound_two_stage_reductions(-1), std::logic_error);
  });
}

TEST(GradientBuckets, BecomingReadyTwiceInAStepThrows) {
  comm::with_ranks(1, [](const comm::ProcessGroup& world) {
    Model m(world, 1, 1);
    m.contribute(0, 1);
    m.ready(0);
    EXPECT_THROW(m.ready(0), std::logic_error);
  });
}

TEST(GradientBuckets, ParameterOfAnotherModelThrows) {
  comm::with_ranks(1, [](const comm::ProcessGroup& world) {
    Model m(world, 1, 1), other(world, 1);
    EXPECT_THROW(m.buckets->ready(*other.all[0], m.stream()), std::logic_error);
  });
}

}  // namespace
}  // namespace hexad::tests
