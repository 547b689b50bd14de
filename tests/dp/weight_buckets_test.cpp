// Weights of replicas: whole on every rank, or gathered for each use.
#include "parallel/dp/weight_buckets.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "parallel/comm/thread_group.h"
#include "tests/support/compare.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
namespace {

using namespace autograd;
using device::Category;
using device::Event;
using dp::Zero;

constexpr Zero sharded[] = {Zero::states, Zero::gradients, Zero::weights};
constexpr uint64_t seed = 11;
constexpr int64_t layer_elements = 64, layers = 6;

// Model of six layers. Each layer is a unit. The first parameter is in the last unit.
struct Model {
  Model(const comm::ProcessGroup& world, Zero zero, Dtype dtype = Dtype::f32) : mesh(world, {.dp = world.size()}) {
    for (int64_t l = 0; l < layers; ++l)
      all.push_back(&parameters.add(
          {.name = cat("layer", l), .global_shape = {8, 8}, .placement = {}, .dtype = dtype, .init = {}}));
    plan.emplace(parameters, mesh, dp::BucketPlan::Options{zero, 1});
    weights.emplace(*plan);
    weights->initialize(seed);
  }
  Stream& stream() { return context.compute(); }
  Tensor use(int64_t layer) { return all[layer]->use(stream()); }
  HeldWeight hold(int64_t layer) { return all[layer]->hold(stream()); }
  void forward_and_backward() {
    for (int64_t l = 0; l < layers; ++l) use(l);
    for (int64_t l = layers; l-- > 0;) use(l);
  }
  int64_t used(Category c) const { return context.allocator()->stats().used_in(c); }
  bool in_memory(int64_t layer) const {
    try {
      return all[layer]->local().defined();
    } catch (const std::logic_error&) {
      return false;
    }
  }
  std::vector<int64_t> layers_in_memory() const {
    std::vector<int64_t> out;
    for (int64_t l = 0; l < layers; ++l)
      if (in_memory(l)) out.push_back(l);
    return out;
  }

  device::DeviceContext context{tests::on_test_device({.poison = true, .update_queue = true})};
  mesh::Mesh mesh;
  ParameterSet parameters{context};
  std::vector<Parameter*> all;
  std::optional<dp::BucketPlan> plan;
  std::optional<dp::WeightBuckets> weights;
};

TEST(WeightBuckets, InitialWeightsDoNotDependOnZero) {
  for (const int ranks : {1, 2, 3, 4})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
        Model whole(world, Zero::nothing, dtype);
        for (const Zero zero : sharded) {
          Model m(world, zero, dtype);
          for (int64_t l = 0; l < layers; ++l) expect_bitwise(whole.use(l), m.use(l));
        }
      });
}

TEST(WeightBuckets, UpdateOfOwnedWeightsReachesEveryRank) {
  for (const Zero zero : sharded)
    comm::with_ranks(3, [&](const comm::ProcessGroup& world) {
      Model m(world, zero);
      m.forward_and_backward();
      m.weights->update(m.stream(), [&] {
        for (Parameter* p : m.all)
          kernels::kernels(m.context).pointwise.fill(m.stream(), p->owned_weights(), world.rank() + 1);
      });
      for (int64_t l = 0; l < layers; ++l) {
        const std::vector<double> values = values_of(m.use(l));
        // 64 elements are cut into pieces of 32 (two cache lines each). The third rank has only padding.
        for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i < 32 ? 1 : 2) << "element " << i;
      }
    });
}

// Fills the owned weights of all layers with `value`.
void fill_owned(Model& m, double value) {
  for (Parameter* p : m.all) kernels::kernels(m.context).pointwise.fill(m.stream(), p->owned_weights(), value);
}

// Rank 1 updates only after the update of rank 0 has returned, so rank 0 must not wait for the gathers. An update
// gathers nothing under Zero::weights.
TEST(WeightBuckets, UpdateReturnsBeforeWeightsArriveAtTheirUse) {
  for (const Zero zero : sharded) {
    std::promise<void> returned;
    comm::with_ranks(2,
                     [&](const comm::ProcessGroup& world) {
                       Model m(world, zero);
                       const auto update = [&] {
                         m.weights->update(
                             m.stream(), [&] { fill_owned(m, 1 + world.rank()); }, dp::Arrival::at_use);
                       };
                       if (world.rank() == 0) {
                         update();
                         returned.set_value();
                       } else {
                         EXPECT_EQ(returned.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
                         update();
                       }
                       for (int64_t l = 0; l < layers; ++l) {
                         const std::vector<double> values = values_of(m.use(l));
                         for (size_t i = 0; i < values.size(); ++i)
                           EXPECT_EQ(values[i], i < 32 ? 1 : 2) << "element " << i;
                       }
                     },
                     {.watchdog_seconds = 20});
  }
}

TEST(WeightBuckets, CompletedWeightsNeedNoUse) {
  for (const Zero zero : {Zero::states, Zero::gradients})
    comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
      Model m(world, zero);
      m.weights->update(
          m.stream(), [&] { fill_owned(m, 1 + world.rank()); }, dp::Arrival::at_use);
      m.weights->complete(m.stream());
      for (Parameter* p : m.all) {
        EXPECT_TRUE(p->weights_are_resident());
        EXPECT_EQ(values_of(p->local()).front(), 1);
        EXPECT_EQ(values_of(p->local()).back(), 2);
      }
    });
}

// An update waits for the gathers of the previous update, which read the weights that the new update writes.
TEST(WeightBuckets, UpdatesInARowDoNotMix) {
  for (const Zero zero : {Zero::states, Zero::gradients})
    for (const uint64_t seed_of_delays : {1, 2})
      comm::with_ranks(
          3,
          [&](const comm::ProcessGroup& world) {
            Model m(world, zero);
            for (int value = 1; value <= 3; ++value) {
              m.weights->update(
                  m.stream(), [&] { fill_owned(m, value); }, dp::Arrival::at_use);
              const std::vector<double> values = values_of(m.use(value));
              EXPECT_EQ(values, std::vector<double>(values.size(), value));
            }
            m.weights->complete(m.stream());
          },
          {.jitter = {.seed = seed_of_delays, .max_delay = std::chrono::microseconds(300)}, .watchdog_seconds = 20});
}

// Updates the weights on the context's queue for updates. For each bucket, this queue first writes to `slow` for some
// time, and then fills the owned weights with `value`.
void fill_beside(Model& m, double value, const Tensor& slow) {
  const auto& fill = kernels::kernels(m.context).pointwise.fill;
  m.weights->update_beside(m.stream(), m.context.updates(), [&](const dp::Bucket& bucket) {
    for (int i = 0; i < 4; ++i) fill(m.context.updates(), slow, i);
    for (const dp::Bucket::Entry& e : bucket.entries) fill(m.context.updates(), e.parameter->owned_weights(), value);
  });
}

TEST(WeightBuckets, UsesWaitForAnUpdateOnASecondQueue) {
  for (const int ranks : {1, 2})
    for (const Zero zero : {Zero::nothing, Zero::states, Zero::gradients, Zero::weights})
      comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
        Model m(world, zero);
        const Tensor slow = Tensor::empty({1 << 20}, Dtype::f32, m.context);
        m.forward_and_backward();
        for (int step = 1; step <= 3; ++step) {
          fill_beside(m, step * (world.rank() + 1), slow);
          for (int64_t l = 0; l < layers; ++l) {
            const std::vector<double> values = values_of(m.use(l));
            const int last = zero == Zero::nothing ? world.rank() : ranks - 1;
            EXPECT_EQ(values.front(), zero == Zero::nothing ? step * (world.rank() + 1) : step);
            EXPECT_EQ(values.back(), step * (last + 1));
          }
          for (int64_t l = layers; l-- > 0;) m.use(l);
        }
        m.weights->complete(m.stream());
      });
}

TEST(WeightBuckets, CompletedUpdateOnASecondQueueNeedsNoUse) {
  for (const Zero zero : {Zero::nothing, Zero::states, Zero::gradients, Zero::weights})
    comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
      Model m(world, zero);
      const Tensor slow = Tensor::empty({1 << 20}, Dtype::f32, m.context);
      fill_beside(m, 5, slow);
      m.weights->complete(m.stream());
      for (Parameter* p : m.all) EXPECT_EQ(values_of(p->owned_weights()).front(), 5);
    });
}

using Layers = std::vector<int64_t>;

TEST(WeightBuckets, OnlyTheWeightsOfAShareRemainInMemoryUnderZero3) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model m(world, Zero::weights);
    EXPECT_EQ(m.used(Category::parameter), layers * layer_elements * 4 / 2);
    EXPECT_EQ(m.layers_in_memory(), Layers{});
    m.forward_and_backward();
    m.weights->update(m.stream(), [] {});
    EXPECT_EQ(m.layers_in_memory(), Layers{});
    EXPECT_EQ(m.used(Category::parameter), layers * layer_elements * 4 / 2);
  });
}

TEST(WeightBuckets, NextUnitIsGatheredAheadInAKnownOrder) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model m(world, Zero::weights);
    for (int64_t l = 0; l < layers; ++l) {
      m.use(l);
      EXPECT_EQ(m.layers_in_memory(), Layers{l}) << "in the first pass, the next layer is unknown";
    }
    for (int64_t l = layers; l-- > 0;) m.use(l);
    m.weights->update(m.stream(), [] {});
    for (int64_t l = 0; l + 1 < layers; ++l) {
      m.use(l);
      EXPECT_EQ(m.layers_in_memory(), (Layers{l, l + 1}));
    }
    for (int64_t l = layers - 1; l > 0; --l) {
      m.use(l);
      EXPECT_EQ(m.layers_in_memory(), (Layers{l - 1, l})) << "backward gathers the previous layer ahead";
    }
    m.use(0);
    EXPECT_EQ(m.layers_in_memory(), Layers{0}) << "nothing is gathered ahead, because the update follows";
  });
}

// The ranks call a gather of weights and a reduction of gradients in opposite orders. The calls of the ranks would not
// match if weights and gradients shared a communicator.
TEST(WeightBuckets, WeightsAreNotOrderedAgainstGradientsUnderZero3) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model whole(world, Zero::nothing), m(world, Zero::weights);
    const comm::ProcessGroup& gradients = *m.plan->buckets().front().group;
    const Tensor x = Tensor::zeros({4}, Dtype::f32, m.context);
    Stream& stream = m.context.compute();
    Event reduced;
    if (world.rank() == 0) reduced = gradients.all_reduce(x, comm::Reduce::sum, stream);
    expect_bitwise(whole.use(0), m.use(0));
    if (world.rank() == 1) reduced = gradients.all_reduce(x, comm::Reduce::sum, stream);
    reduced.wait();
  });
}

// A pass in another order is correct, too, but wastes the weights that were gathered ahead.
TEST(WeightBuckets, UnexpectedOrderChangesNoWeight) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model whole(world, Zero::nothing), m(world, Zero::weights);
    m.forward_and_backward();
    for (const int64_t l : {5, 0, 1, 4, 3, 0, 1, 2, 3, 3, 1}) expect_bitwise(whole.use(l), m.use(l));
  });
}

TEST(WeightBuckets, ReadingAbsentWeightsThrows) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model m(world, Zero::weights);
    m.use(0);
    EXPECT_NO_THROW(m.all[0]->local());
    EXPECT_THROW(m.all[1]->local(), std::logic_error);
    m.use(1);
    EXPECT_THROW(m.all[0]->local(), std::logic_error);
  });
}

TEST(WeightBuckets, HeldWeightsRemainDuringOtherUsesAndAreFreedAtTheNextUse) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model whole(world, Zero::nothing), m(world, Zero::weights);
    {
      const HeldWeight first = m.hold(0), second = m.hold(1);
      m.use(3), m.use(4);
      EXPECT_EQ(m.layers_in_memory(), (Layers{0, 1, 4}));
      expect_bitwise(whole.use(1), second.on(m.stream()));
      expect_bitwise(whole.use(0), first.on(m.stream()));
      EXPECT_EQ(m.layers_in_memory(), (Layers{0, 1, 4})) << "reading held weights must gather nothing";
      const HeldWeight once_more = m.hold(0);
      m.use(4);
    }
    EXPECT_EQ(m.layers_in_memory(), (Layers{0, 1, 4}));
    m.use(5);
    EXPECT_FALSE(m.in_memory(1)) << "layer 1 has no holder left";
    m.weights->update(m.stream(), [] {});
    EXPECT_EQ(m.layers_in_memory(), Layers{});
    EXPECT_EQ(m.used(Category::parameter), layers * layer_elements * 4 / 2);
  });
}

// Rank 0 never reads the weights that it holds. Rank 1 reads its held weights once more in each pass than in the pass
// before.
TEST(WeightBuckets, RanksMayReadHeldWeightsDifferentNumbersOfTimes) {
  comm::with_ranks(2,
                   [&](const comm::ProcessGroup& world) {
                     Model whole(world, Zero::nothing), m(world, Zero::weights);
                     for (int pass = 0; pass < 3; ++pass) {
                       const HeldWeight held[] = {m.hold(1), m.hold(2), m.hold(3)};
                       for (int chunk = 0; chunk < pass * world.rank(); ++chunk)
                         for (const int l : {2, 0, 1}) expect_bitwise(whole.use(l + 1), held[l].on(m.stream()));
                       expect_bitwise(whole.use(5), m.use(5));
                     }
                   },
                   {.watchdog_seconds = 20});
}

TEST(WeightBuckets, UpdateOfHeldWeightsIsRefused) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model m(world, Zero::weights);
    const HeldWeight held = m.hold(2);
    try {
      m.weights->update(m.stream(), [] {});
      ADD_FAILURE() << "an update of held weights was accepted; expected an error";
    } catch (const std::logic_error& e) {
      EXPECT_STREQ(e.what(),
                   "[buckets] layer2 or another parameter of its bucket is held while weights are updated; expected no "
                   "HeldWeight of the bucket");
    }
  });
}

// An operation keeps its tensors alive until it ends.
TEST(WeightBuckets, TensorInUseOutlivesItsUnit) {
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    Model whole(world, Zero::nothing), m(world, Zero::weights);
    const Tensor first = m.use(0);
    m.use(3), m.use(5);
    expect_bitwise(whole.use(0), first);
  });
}

}  // namespace
}  // namespace hexad::tests
