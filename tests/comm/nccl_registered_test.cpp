// Buffers that groups register with the NCCL test double. The double counts registrations that last too long.
#include "parallel/comm/nccl/registered.h"

#include <gtest/gtest.h>

#include <atomic>

#include "nccl_ranks.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/nccl.h"

namespace hexad::comm {

using device::Category;
using namespace base;

namespace {

constexpr int64_t n = (int64_t{5} << 20) / 4;  // elements of a buffer that is large enough to be registered
const DeviceGroupOptions registering{.register_buffers = true};

Tensor ones(const CardWorld& w, Category category = Category::gradient, int64_t elements = n) {
  const std::vector<float> values(elements, 1.0f);
  return Tensor::from<float>(values, {elements}, w.context, category);
}

void sum(const CardWorld& w, const ProcessGroup& group, const Tensor& x) {
  group.all_reduce(x, Reduce::sum, w.context.compute()).wait();
}

// Waits until all ranks have called this function.
void meet(const CardWorld& w) { w.world.any(false, w.context); }

class NcclRegistered : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(cuda_double::nccl_registrations(), 0);
    EXPECT_EQ(cuda_double::nccl_registration_faults(), faults_);
  }

 private:
  const int64_t faults_ = cuda_double::nccl_registration_faults();
};

TEST_F(NcclRegistered, BufferIsRegisteredOnceWithEachUsingCommunicator) {
  with_cards(
      2,
      [](const CardWorld& w) {
        const auto other = w.world.split(0, w.world.rank(), TrafficClass::dp, "other");
        meet(w);
        EXPECT_EQ(cuda_double::nccl_registrations(), 0);
        meet(w);
        {
          const Tensor x = ones(w);
          for (int i = 0; i < 3; ++i) sum(w, w.world, x);
          meet(w);
          EXPECT_EQ(cuda_double::nccl_registrations(), 2);
          meet(w);
          const Tensor part = x.slice(0, w.world.rank() * n / 2, (w.world.rank() + 1) * n / 2);
          other->reduce_scatter(part, x, w.context.compute()).wait();
          other->all_gather(x, part, w.context.compute()).wait();
          meet(w);
          EXPECT_EQ(cuda_double::nccl_registrations(), 4);
          EXPECT_EQ(x.to_vector<float>(), std::vector<float>(n, 16.0f));
          meet(w);
        }
        meet(w);
        EXPECT_EQ(cuda_double::nccl_registrations(), 0);
        meet(w);
        const Tensor again = ones(w);  // another tensor, possibly at the same addresses
        sum(w, w.world, again);
        EXPECT_EQ(again.to_vector<float>(), std::vector<float>(n, 2.0f));
      },
      registering);
}

TEST_F(NcclRegistered, SmallAndShortLivedBuffersAreNotRegistered) {
  with_cards(
      2,
      [](const CardWorld& w) {
        const Tensor small = ones(w, Category::gradient, 1000), passing = ones(w, Category::communication);
        sum(w, w.world, small), sum(w, w.world, passing);
        const Tensor lasting = ones(w), gathered = Tensor::empty({2 * n}, Dtype::f32, w.context);
        // `gathered` is temporary, so it cannot be registered. A collective registers both of its buffers or neither,
        // so `lasting` is not registered either.
        w.world.all_gather(gathered, lasting, w.context.compute()).wait();
        meet(w);
        EXPECT_EQ(cuda_double::nccl_registrations(), 0);
      },
      registering);
}

TEST_F(NcclRegistered, NoBufferIsRegisteredByDefault) {
  with_cards(2, [](const CardWorld& w) {
    const Tensor x = ones(w);
    sum(w, w.world, x);
    meet(w);
    EXPECT_EQ(cuda_double::nccl_registrations(), 0);
  });
}

TEST_F(NcclRegistered, CommunicatorDeregistersItsBuffersWhenItEnds) {
  with_cards(
      2,
      [](const CardWorld& w) {
        const Tensor x = ones(w);
        {
          const auto passing = w.world.split(0, w.world.rank(), TrafficClass::dp, "passing");
          w.world.urgent("urgent");
          sum(w, *passing, x);
          passing->all_reduce(x, Reduce::sum, w.context.compute());  // left in flight
        }
        meet(w);
        EXPECT_EQ(cuda_double::nccl_registrations(), 0);
        EXPECT_EQ(x.to_vector<float>(), std::vector<float>(n, 4.0f));
      },
      registering);
}

TEST_F(NcclRegistered, AbortedCommunicatorsKeepNoRegistration) {
  Failures failures;
  DeviceGroupOptions options = registering;
  options.watchdog_seconds = 1;
  with_cards(
      2,
      [&](const CardWorld& w) {
        const Tensor x = ones(w);
        sum(w, w.world, x);
        if (w.world.rank() == 0) w.world.all_reduce(x, Reduce::sum, w.context.compute());
        EXPECT_TRUE(failures.wait(0));
      },
      options, &failures);
}

TEST_F(NcclRegistered, FailedRegistrationIsReportedWithARemedy) {
  const auto change = cuda_double::NcclChange::no_registrations();
  Failures failures;
  std::atomic<int> told = 0;
  with_cards(
      2,
      [&](const CardWorld& w) {
        const Tensor x = ones(w);
        try {
          sum(w, w.world, x);
        } catch (const Error& e) {
          const std::string text = e.what();
          EXPECT_TRUE(
              text.starts_with("[nccl] registering a buffer of 6291456 bytes with communicator world "
                               "(distributed.register_buffers: false avoids this): "))
              << text;
          ++told;
        }
        meet(w);
      },
      registering, &failures);
  EXPECT_EQ(told, 2);
}

TEST_F(NcclRegistered, RanksOnOneCardReportMissingRegistration) {
  with_ranks(2, [](const ProcessGroup& threads) {
    device::DeviceContext context({.kind = device::DeviceKind::cuda});
    std::string said;
    DeviceGroupOptions options = registering;
    options.info = [&](const std::string& text) { said = text; };
    EXPECT_EQ(make_device_group(threads, context, options), nullptr);
    if (threads.rank() == 0) {
      EXPECT_TRUE(said.ends_with(" share a card, which NCCL does not support; no buffers are registered")) << said;
    }
  });
}

}  // namespace
}  // namespace hexad::comm
