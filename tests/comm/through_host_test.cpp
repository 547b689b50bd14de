// Collectives on device tensors in groups that accept only host memory.
#include "parallel/comm/through_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "collectives_check.h"
#include "framework/device/emulated/emulated_queue.h"
#include "framework/device/emulated/heap.h"
#include "parallel/comm/engine_ranks.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::DeviceKind;
using device::Lane;

constexpr DeviceKind emulated_kind = DeviceKind::emulated;
constexpr int64_t n = 1000;

Tensor ones(Device device) {
  const std::vector<float> values(n, 1.0f);
  return Tensor::from<float>(values, {n}, device);
}

// Gate that blocks a lane from close() until let_go().
struct Gate {
  std::atomic<bool> open = false;
  void close(DeviceContext& context, Lane lane) {
    device::emulated::emulated_stream(context.stream(lane)).launch({}, [this] { open.wait(false); });
  }
  void let_go() { open = true, open.notify_all(); }
};

void check_all(const ProcessGroup& world) {
  check_collectives(world, {.kind = emulated_kind});
  check_uneven_splits(world, {.kind = emulated_kind});
  check_ring(world, {.kind = emulated_kind});
  check_groups_in_flight_together(world, {.kind = emulated_kind});
}

class ThroughHost : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, ThroughHost, testing::Values(1, 2, 3, 4));

TEST_P(ThroughHost, ThreadsPassTheChecksOfDeviceTensors) { with_ranks(GetParam(), check_all); }

TEST_P(ThroughHost, EnginesPassTheChecksOfDeviceTensors) { with_engine_ranks(GetParam(), check_all, {.adversary = 1}); }

TEST(ThroughHost, GroupOfOnePassesTheChecksOfDeviceTensors) { check_all(SelfGroup()); }

TEST(ThroughHost, CallerDoesNotWait) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context({.kind = emulated_kind});
    const Tensor x = ones(context);
    Gate gate;
    gate.close(context, Lane::compute);
    const Event reduced = world.all_reduce(x, Reduce::sum, context.compute());
    EXPECT_FALSE(reduced.done());
    gate.let_go();
    reduced.wait();
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(n, static_cast<float>(world.size())));
  });
}

TEST(ThroughHost, WaitingLaneSeesTheResult) {
  DeviceContext context({.kind = emulated_kind});
  const Tensor x = ones(context);
  const auto host_part = Event::make_state();
  Tensor on_host;
  const auto start = [&](Operation op, Stream&) {
    on_host = op.out;
    return Event(host_part);
  };
  const Event done = through_host({.kind = Operation::Kind::all_reduce, .out = x}, 0, start, context.compute());
  context.compute().synchronize();
  EXPECT_EQ(on_host.to_vector<float>(), std::vector<float>(n, 1.0f));

  // The result is on the host long before it is copied back to the device.
  Gate gate;
  gate.close(context, Lane::copy);
  std::fill_n(on_host.data<float>(), n, 7.0f);
  device::complete(host_part);
  EXPECT_NE(done.launched(), nullptr);
  EXPECT_FALSE(done.done());
  context.compute().wait(done);
  const Event used = context.compute().record();
  EXPECT_FALSE(used.done());
  gate.let_go();
  used.wait();
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(n, 7.0f));
}

TEST(ThroughHost, SentTensorsAreKeptUntilTheOperationIsDone) {
  DeviceContext context({.kind = emulated_kind});
  const Tensor x = ones(context), got = Tensor::empty({n}, Dtype::f32, context);
  const auto host_part = Event::make_state();
  const auto start = [&](Operation, Stream&) { return Event(host_part); };
  Operation op{.kind = Operation::Kind::all_gather, .out = got, .in = x};
  const Event done = through_host(std::move(op), 0, start, context.compute());
  EXPECT_FALSE(x.sole_owner());  // a sole owner could write into x
  device::complete(host_part);
  done.wait();
  EXPECT_TRUE(x.sole_owner());
  EXPECT_TRUE(got.sole_owner());
}

TEST(ThroughHost, SentTensorsMayBeFreedImmediately) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context({.kind = emulated_kind});
    const Tensor got = Tensor::empty({n}, Dtype::f32, context);
    const int other = 1 - world.rank();
    Gate gate;
    gate.close(context, Lane::inter);
    Tensor sent = ones(context);
    context.compute().synchronize();
    world.send(sent, other, context.stream(Lane::inter));
    sent = {};
    const Tensor next = Tensor::empty({n}, Dtype::f32, context);  // possibly the memory of `sent`
    next.fill_bytes(0, context.compute());
    gate.let_go();
    world.receive(got, other, context.compute()).wait();
    EXPECT_EQ(got.to_vector<float>(), std::vector<float>(n, 1.0f));
  });
}

TEST(ThroughHost, LostPeerIsAnErrorOfTheWaitingRank) {
  const auto body = [](const ProcessGroup& world) {
    if (world.rank() == 1) fail(ExitCode::numeric, "loss is NaN");
    DeviceContext context({.kind = emulated_kind});
    const Tensor x = ones(context);
    try {
      context.compute().wait(world.all_reduce(x, Reduce::sum, context.compute()));
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::peer_lost);
      throw;
    }
  };
  for (const bool engines : {false, true}) try {
      engines ? with_engine_ranks(2, body) : with_ranks(2, body);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::numeric);
    }
}

TEST(ThroughHost, PeersMayArriveAfterTheDeviceIsGone) {
  std::atomic<bool> gone = false;
  with_ranks(2, [&](const ProcessGroup& world) {
    if (world.rank() == 0) {
      DeviceContext context({.kind = emulated_kind});
      const Tensor x = ones(context);
      world.all_reduce(x, Reduce::sum, context.compute());
    } else {
      gone.wait(false);
      DeviceContext context({.kind = emulated_kind});
      const Tensor x = ones(context);
      world.all_reduce(x, Reduce::sum, context.compute()).wait();
      EXPECT_EQ(x.to_vector<float>(), std::vector<float>(n, 2.0f));
    }
    gone = true, gone.notify_all();
  });
}

TEST(ThroughHost, HostTensorsWithAStreamOfADeviceAreRefused) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context({.kind = emulated_kind});
    const Tensor x = Tensor::zeros({n}, Dtype::f32, context.host());
    EXPECT_THROW(world.all_reduce(x, Reduce::sum, context.compute()), std::logic_error);
  });
}

}  // namespace
}  // namespace hexad::comm
