// The engine over a transport inside this process: fit for the thread sanitizer, and as slow as a test wants.
#include "parallel/comm/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "collectives_check.h"
#include "framework/base/philox.h"
#include "parallel/comm/mpi_group.h"

namespace hexad::comm {
namespace {

using device::DeviceContext;
using device::InlineStream;

// What is on its way between the ranks of a job.
struct Wires {
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> messages;  // by from, to, tag
};

// Delivers messages in the order of each pair and tag, but looks at them only at random polls: a slow, unfair network.
class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<Wires> wires, int rank, int size)
      : wires_(std::move(wires)), random_(1, Purpose::jitter, "loopback", static_cast<uint64_t>(rank)) {
    topology_ = {.rank = rank, .size = size, .node_of_rank = std::vector<int>(static_cast<size_t>(size), 0)};
  }
  const Topology& topology() const override { return topology_; }
  int largest_tag() const override { return 1000; }

  void send(int to, int tag, const std::byte* data, int64_t bytes, uint64_t token) override {
    std::lock_guard lock(wires_->mutex);
    wires_->messages[{topology_.rank, to, tag}].emplace_back(data, data + bytes);
    sent_.push_back({token, {}});
  }
  void receive(int from, int tag, std::byte* data, int64_t bytes, uint64_t token) override {
    if (bytes == broken_size) base::fail(ExitCode::communication, "the wire is cut");
    waiting_[{from, topology_.rank, tag}].push_back({token, data, bytes});
  }
  void poll(std::vector<Done>& done) override {
    done.swap(sent_);
    if (random_.below(polls_++, 3) != 0) return;
    std::lock_guard lock(wires_->mutex);
    for (auto& [key, receives] : waiting_) {
      auto& wire = wires_->messages[key];
      if (receives.empty() || wire.empty()) continue;
      const Receive r = receives.front();
      ASSERT_EQ(static_cast<int64_t>(wire.front().size()), r.bytes);
      if (r.bytes) std::memcpy(r.data, wire.front().data(), wire.front().size());
      wire.pop_front();
      receives.pop_front();
      done.push_back({r.token, {}});
    }
  }
  void abort(int code) override { aborted = code; }

  static constexpr int64_t broken_size = 13;
  static inline std::atomic<int> aborted = 0;

 private:
  struct Receive {
    uint64_t token;
    std::byte* data;
    int64_t bytes;
  };
  std::shared_ptr<Wires> wires_;
  Topology topology_;
  Philox random_;
  uint64_t polls_ = 0;
  std::vector<Done> sent_;
  std::map<std::tuple<int, int, int>, std::deque<Receive>> waiting_;
};

void with_engines(int ranks, const std::function<void(const ProcessGroup& world)>& body) {
  const auto wires = std::make_shared<Wires>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      CommEngine engine([&] { return std::make_unique<LoopbackTransport>(wires, rank, ranks); },
                        {.round_bytes = 1 << 18, .window_bytes = 1 << 20});
      body(MpiGroup(engine, TrafficClass::control, "world"));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(CommEngine, GroupsWorkOverASlowNetwork) {
  with_engines(3, [](const ProcessGroup& world) {
    check_uneven_splits(world);
    check_ring(world);
    check_groups_in_flight_together(world);
    check_split(world);
  });
}

TEST(CommEngine, EventsNobodyWaitsForAreDoneAtTheEnd) {
  DeviceContext context;
  std::vector<Tensor> sums;
  for (int r = 0; r < 2; ++r) sums.push_back(Tensor::zeros({100000}, Dtype::f32, context));
  with_engines(2, [&](const ProcessGroup& world) {
    InlineStream stream;
    const Tensor& x = sums[static_cast<size_t>(world.rank())];
    x.data<float>()[99999] = 1;
    world.all_reduce(x, Reduce::sum, stream);
  });
  for (const Tensor& x : sums) EXPECT_EQ(x.data<float>()[99999], 2);
}

TEST(CommEngine, AFailedTransportFailsEverythingPostedAndLaterAndEndsTheJob) {
  LoopbackTransport::aborted = 0;
  with_engines(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const Tensor bad = Tensor::zeros({13}, Dtype::u8, context), good = Tensor::zeros({4}, Dtype::f32, context);
    const Event first = world.all_reduce(bad, Reduce::sum, stream),
                second = world.all_reduce(good, Reduce::sum, stream);
    try {
      first.wait();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::communication);
      EXPECT_EQ(std::string(e.what()),
                cat("[world] all_reduce of u8 [13] on rank ", world.rank(), ": the wire is cut"));
    }
    EXPECT_THROW(second.wait(), Error);
    EXPECT_THROW(world.barrier(stream).wait(), Error);
  });
  EXPECT_EQ(LoopbackTransport::aborted, static_cast<int>(ExitCode::communication));
}

TEST(CommEngine, AnErrorOnTheStreamBeforeFailsTheOperation) {
  with_engines(1, [](const ProcessGroup& world) {
    DeviceContext context{{.worker_lanes = true}};
    Stream& lane = context.stream(device::Lane::inter);
    lane.run([] { fail(ExitCode::numeric, "NaN before the exchange"); });
    try {
      world.barrier(lane).wait();
      FAIL();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "NaN before the exchange");
    }
  });
}

TEST(CommEngine, AFailureToConnectReachesTheCaller) {
  EXPECT_THROW(CommEngine([]() -> std::unique_ptr<Transport> { fail(ExitCode::usage, "no launcher"); }, {}), Error);
}

}  // namespace
}  // namespace hexad::comm
