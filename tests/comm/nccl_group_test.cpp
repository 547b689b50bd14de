// Tests NcclGroup on the CUDA test double and the NCCL test double: properties that every ProcessGroup must have, and
// properties of NcclGroup alone.
#include "parallel/comm/nccl/nccl_group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <future>

#include "collectives_check.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/device_access.h"
#include "nccl_ranks.h"
#include "parallel/comm/class_config.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/cuda_double/append.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/nccl.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::DeviceKind;

class NcclGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, NcclGroups, testing::Values(1, 2, 3, 4, 8));

TEST_P(NcclGroups, PassTheChecksOfCollectives) {
  with_cards(GetParam(), [](const CardWorld& w) { check_collectives(w.world, w.place); });
}

TEST_P(NcclGroups, ExchangeUnevenAndEmptySplits) {
  with_cards(GetParam(), [](const CardWorld& w) { check_uneven_splits(w.world, w.place); });
}

TEST_P(NcclGroups, SendBeforeTheyReceive) {
  with_cards(GetParam(), [](const CardWorld& w) { check_ring(w.world, w.place); });
}

TEST_P(NcclGroups, SplitByColourAndKey) {
  if (GetParam() > 1) with_cards(GetParam(), [](const CardWorld& w) { check_split(w.world); });
}

TEST_P(NcclGroups, CutLongTransfersWithoutChangingTheResult) {
  const auto body = [](const CardWorld& w) {
    check_collectives(w.world, w.place);
    check_uneven_splits(w.world, w.place);
    check_ring(w.world, w.place);
  };
  with_cards(GetParam(), body, {.piece_bytes = 4096});
}

// Appends a sum to the stream, like the launch of a kernel. The CPU computes the sum.
void sum_on_double(Stream& stream, const Tensor& out, std::span<const Tensor> addends) {
  std::vector<const void*> pointers;
  for (const Tensor& a : addends) pointers.push_back(tensor::device_raw(a));
  cuda_double::append(*device::cuda::cuda_stream(stream).queue(),
                      [to = tensor::device_raw(out), pointers, n = out.numel(), dtype = out.dtype()] {
                        reduce(to, pointers, n, dtype, Reduce::sum);
                      });
}

template <class T>
std::vector<T> irrational(int rank, int64_t n) {
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<T>(std::sin(static_cast<float>(i * 31 + rank * 7)) * (1 + 100 * (i % 3 == rank % 3))));
  return values;
}

// Results of an all_reduce (`everywhere`) and of a reduce_scatter (`part`) on one rank.
template <class T>
struct Sums {
  std::vector<T> everywhere, part;
  bool operator==(const Sums&) const = default;
};

template <class T>
Sums<T> sums_of(const ProcessGroup& g, DeviceContext& context, int64_t n) {
  const Tensor x = Tensor::from<T>(irrational<T>(g.rank(), n), {n}, context);
  g.all_reduce(x, Reduce::sum, context.compute()).wait();
  const Tensor in = Tensor::from<T>(irrational<T>(g.rank(), g.size() * n), {g.size() * n}, context);
  const Tensor out = Tensor::empty({n}, dtype_of<T>, context);
  g.reduce_scatter(out, in, context.compute()).wait();
  return {x.to_vector<T>(), out.to_vector<T>()};
}

template <class T>
std::vector<Sums<T>> on_threads(int n, int64_t elements) {
  std::vector<Sums<T>> all(n);
  with_ranks(n, [&](const ProcessGroup& g) {
    DeviceContext host;
    all[g.rank()] = sums_of<T>(g, host, elements);
  });
  return all;
}

template <class T>
std::vector<Sums<T>> on_cards(int n, int64_t elements, SumInOrder sum_of) {
  std::vector<Sums<T>> all(n);
  with_cards(n, [&](const CardWorld& w) { all[w.world.rank()] = sums_of<T>(w.world, w.context, elements); },
             {.piece_bytes = 1000, .sum_of = sum_of});
  return all;
}

template <class T>
void expect_sums_in_order() {
  for (const int n : {2, 3, 8})
    for (const int64_t elements : {1, 5, 1009}) {
      EXPECT_EQ(on_cards<T>(n, elements, sum_on_double), on_threads<T>(n, elements))
          << n << " ranks, " << elements << " elements";
    }
}

TEST(NcclSums, InRankOrderEqualTheSumsOfOtherGroupsBitwise) {
  expect_sums_in_order<float>();
  expect_sums_in_order<bf16>();
  expect_sums_in_order<double>();
}

// NCCL's own sums must differ from the sums of ranks that are threads. Otherwise, the previous test would prove
// nothing.
TEST(NcclSums, FollowNcclsOrderByDefault) { EXPECT_NE(on_cards<float>(3, 1009, nullptr), on_threads<float>(3, 1009)); }

TEST(NcclSums, SumsInOtherOrdersAreEqualOnAllRanks) {
  const auto sums = on_cards<bf16>(4, 1009, nullptr);
  for (const auto& s : sums) EXPECT_EQ(s.everywhere, sums.front().everywhere);
}

constexpr int64_t n = 1000;
Tensor numbers(DeviceContext& context, float value) {
  return Tensor::from<float>(std::vector<float>(n, value), {n}, context);
}

TEST(NcclGroup, BlocksStreamsButNotTheHost) {
  with_cards(2, [](const CardWorld& w) {
    w.world.all_reduce(numbers(w.context, 0), Reduce::sum, w.context.compute()).wait();  // connects the ranks
    std::promise<void> gate;
    if (w.world.rank() == 1)  // its device reaches the operation late
      cuda_double::append(*device::cuda::cuda_stream(w.context.compute()).queue(),
                          [open = std::make_shared<std::shared_future<void>>(gate.get_future())] { open->wait(); });
    const Tensor x = numbers(w.context, static_cast<float>(w.world.rank() + 1));
    Event done = w.world.all_reduce(x, Reduce::sum, w.context.compute());
    EXPECT_FALSE(done.done() && w.world.rank() == 1);
    Stream& other = w.context.stream(device::Lane::inter);
    other.wait(done);
    const Tensor copy = Tensor::empty({n}, Dtype::f32, w.context);
    copy.copy_from(x, other);
    gate.set_value();
    other.synchronize();
    EXPECT_EQ(copy.to_vector<float>(), std::vector<float>(n, 3.0f));
  });
}

// A rank frees the input of a running operation. The stream of the memory's next owner waits until the operation has
// read the memory. The operation's event does not own the memory. Otherwise, the events of a pipeline would keep all
// tensors that the pipeline sends in a step.
TEST(NcclGroup, ReadsMemoryFreedInFlight) {
  with_cards(2, [](const CardWorld& w) {
    const Tensor out = Tensor::empty({2 * n}, Dtype::f32, w.context);
    Stream& stream = w.context.compute();
    w.world.all_gather(out, numbers(w.context, 0), stream).wait();
    Tensor in = numbers(w.context, 1);
    const auto place = in.address();
    if (w.world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const Event done = w.world.all_gather(out, in, stream);
    in = {};
    const Tensor next = Tensor::empty({n}, Dtype::f32, w.context);
    EXPECT_EQ(next.address(), place) << "the allocator must return the same memory again for this test";
    next.fill_bytes(0, stream);
    stream.wait(w.world.all_gather(Tensor::empty({2 * n}, Dtype::f32, w.context), next, stream));
    EXPECT_EQ(out.to_vector<float>(), std::vector<float>(2 * n, 1.0f));
  });
}

TEST(NcclGroup, HasASeparateCommunicatorForEachSplitAndUrgency) {
  with_cards(2,
             [](const CardWorld& w) {
               const auto tp = w.world.split(0, w.world.rank(), TrafficClass::tp, "tp");
               const auto dp = w.world.split(0, w.world.rank(), TrafficClass::dp, "dp");
               const auto sooner = dp->urgent("dp, urgent");
               std::vector<std::string> names;
               for (const auto& c : cuda_double::nccl_communicators())
                 if (c.rank == w.world.rank()) {
                   names.push_back(c.name);
                   EXPECT_GE(c.config.minCTAs, 1) << c.name;
                   EXPECT_LE(c.config.maxCTAs, 16) << c.name;
                   EXPECT_EQ(c.config.splitShare, 0) << c.name;
                   EXPECT_EQ(c.config.trafficClass, c.name == "tp" ? 3 : NCCL_CONFIG_UNDEF_INT) << c.name;
                 }
               EXPECT_EQ(names, (std::vector<std::string>{"world", "tp", "dp", "dp, urgent"}));
               // All operations are in flight together, in the same order on all ranks.
               std::vector<Tensor> sums;
               std::vector<Event> events;
               for (int repeat = 0; repeat < 5; ++repeat)
                 for (const ProcessGroup* g :
                      {&w.world, static_cast<const ProcessGroup*>(tp.get()), static_cast<const ProcessGroup*>(dp.get()),
                       static_cast<const ProcessGroup*>(sooner.get())}) {
                   sums.push_back(numbers(w.context, static_cast<float>(repeat)));
                   events.push_back(g->all_reduce(sums.back(), Reduce::sum, w.context.compute()));
                 }
               for (const Event& e : events) e.wait();
               for (size_t i = 0; i < sums.size(); ++i)
                 EXPECT_EQ(sums[i].to_vector<float>(), std::vector<float>(n, 2.0f * static_cast<float>(i / 4)));
             },
             {.network_class = {std::nullopt, 3}});
}

TEST(NcclGroup, HasFewerThreadBlocksIfItsLayoutHasManyGroups) {
  using enum TrafficClass;
  std::vector<GroupTraffic> groups;
  for (const TrafficClass traffic : {control, tp, ep, pp, cp, dp})
    for (const bool across_nodes : {false, true}) groups.push_back({.traffic = traffic, .across_nodes = across_nodes});
  groups.push_back({.traffic = pp, .channels = 4});
  const auto expect_blocks = [&](int expected) {
    with_cards(2,
               [&](const CardWorld& w) {
                 const auto group = w.world.split(0, w.world.rank(), tp, "tp");
                 for (const auto& c : cuda_double::nccl_communicators())
                   if (c.rank == w.world.rank()) {
                     EXPECT_EQ(c.config.maxCTAs, c.name == "world" ? 1 : expected) << c.name;
                   }
               },
               {.groups = groups});
  };
  expect_blocks(12);
  const cuda_double::Multiprocessors small(40);
  expect_blocks(2);
}

// A send ends only when the peer receives. Both ranks would hang if they waited for their cards before they receive.
TEST(NcclGroup, UploadsAndFirstLaunchesDoNotWaitForMessagesInFlight) {
  with_cards(2,
             [](const CardWorld& w) {
               const int other = 1 - w.world.rank();
               Stream& stream = w.context.compute();
               const auto swap = [&](const std::function<void()>& between) {
                 const Tensor got = Tensor::empty({n}, Dtype::f32, w.context);
                 const Tensor going = numbers(w.context, static_cast<float>(other));
                 const Event sent = w.world.send(going, other, stream);
                 between();
                 w.world.receive(got, other, stream).wait();
                 sent.wait();
                 EXPECT_EQ(got.to_vector<float>(), std::vector<float>(n, static_cast<float>(w.world.rank())));
               };
               swap([] {});  // connects the ranks
               swap([&] {
                 const std::vector<float> values(100 * n, 1.0f);  // the first upload of this size
                 const Tensor x = Tensor::from<float>(values, {100 * n}, w.context);
                 kernels::kernels(w.context).pointwise.fill(stream, x, 2.0);
               });
             },
             {.watchdog_seconds = 10});
}

TEST(NcclGroup, HasChannelsOfConnectedRoutesOnly) {
  with_cards(4, [](const CardWorld& w) {
    const int me = w.world.rank(), next = (me + 1) % 4, before = (me + 3) % 4;
    const std::vector<Route> ring{{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    for (int repeat = 0; repeat < 2; ++repeat) w.world.connect_routes(ring, w.context);
    int channels = 0;
    for (const auto& c : cuda_double::nccl_communicators())
      if (c.device == me && c.name != "world") {
        ++channels;
        EXPECT_EQ(c.ranks, 2) << c.name;
        EXPECT_EQ(c.config.maxCTAs, 8) << c.name;
      }
    EXPECT_EQ(channels, 2) << "one channel leads to the next rank, one from the previous rank";
    const Tensor got = Tensor::empty({n}, Dtype::f32, w.context);
    Stream& stream = w.context.compute();
    const auto pass_on = [&](int to, int from) {
      const Event sent = w.world.send(numbers(w.context, static_cast<float>(me)), to, stream);
      w.world.receive(got, from, stream).wait();
      sent.wait();
      EXPECT_EQ(got.to_vector<float>(), std::vector<float>(n, static_cast<float>(from)));
    };
    pass_on(next, before);
    EXPECT_THROW(w.world.send(got, before, stream), std::logic_error);
    const std::vector<Route> back{{1, 0}, {2, 1}, {3, 2}, {0, 3}};
    w.world.connect_routes(back, w.context);
    pass_on(next, before);
    pass_on(before, next);
  });
}

TEST(NcclGroup, CountsBytesSentAndSecondsTaken) {
  with_cards(4, [](const CardWorld& w) {
    const auto ep = w.world.split(0, w.world.rank(), TrafficClass::ep, "ep");
    const Tensor in = numbers(w.context, 1), out = Tensor::empty({4 * n}, Dtype::f32, w.context);
    ep->all_gather(out, in, w.context.compute()).wait();
    TrafficStats stats = ep->take(TrafficClass::ep);
    EXPECT_EQ(stats.bytes, 3 * 4 * n) << "bytes are counted when the operation is issued";
    for (int i = 0; i < 500 && stats.seconds == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const TrafficStats more = ep->take(TrafficClass::ep);
      EXPECT_EQ(more.bytes, 0);
      stats.seconds += more.seconds;
    }
    EXPECT_GT(stats.seconds, 0);
  });
}

TEST(NcclGroup, NeedsNoNcclForOneRank) {
  with_cards(2, [](const CardWorld& w) {
    const auto alone = w.world.split(w.world.rank(), 0, TrafficClass::tp, "alone");
    const int64_t before = cuda_double::nccl_launches();
    check_collectives(*alone, w.place);
    EXPECT_EQ(cuda_double::nccl_launches(), before);
  });
}

TEST(NcclGroup, RefusesHostTensorsWithAStreamOfACard) {
  with_cards(2, [](const CardWorld& w) {
    const Tensor x = Tensor::zeros({n}, Dtype::f32, w.context.host());
    EXPECT_THROW(w.world.all_reduce(x, Reduce::sum, w.context.compute()), std::logic_error);
  });
}

TEST(DeviceGroup, WarnsIfNcclIsToBeginOperationsInTheOrderOfLaunches) {
  const auto warnings = [](const char* order) {
    std::vector<std::string> all;
    if (order) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", order, 1);
    with_cards(2, [](const CardWorld&) {}, {.warn = [&](const std::string& text) { all.push_back(text); }});
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return all;
  };
  EXPECT_TRUE(warnings(nullptr).empty());
  EXPECT_TRUE(warnings("0").empty());
  const std::vector<std::string> of_one = warnings("1");
  ASSERT_EQ(of_one.size(), 1u);
  EXPECT_TRUE(of_one[0].starts_with("NCCL_LAUNCH_ORDER_IMPLICIT (1) must be 0 or unset")) << of_one[0];
}

TEST(DeviceGroup, UsesHostMemoryIfRanksShareACard) {
  const auto one_card = [](int) { return device::ContextOptions{.kind = DeviceKind::cuda, .place = 3}; };
  with_ranks(2, [&](const ProcessGroup& world) {
    DeviceContext context(one_card(world.rank()));
    std::string text;
    EXPECT_EQ(make_device_group(world, context, {.info = [&](const std::string& t) { text = t; }}), nullptr);
    if (world.rank() == 0)
      EXPECT_EQ(text,
                "card tensors are sent between ranks through host memory, because there is no CUDA-aware MPI and NCCL "
                "cannot be used: ranks 0 and 1 share a card, which NCCL does not support");
    else
      EXPECT_EQ(text, "");
    check_ring(world, one_card(world.rank()));
    try {
      make_device_group(world, context, {.collectives = DeviceCollectives::nccl});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::resource);
      EXPECT_NE(std::string(e.what()).find("ranks 0 and 1 share a card"), std::string::npos) << e.what();
    }
  });
}

TEST(DeviceGroup, ReservesMultiprocessorsForTrafficDuringProducts) {
  const std::vector<TrafficBeside> traffic{{.traffic = TrafficClass::pp, .messages = true, .operations = 2},
                                           {.traffic = TrafficClass::dp}};
  constexpr int expected = 32;  // two messages of 8 blocks each, and a sum of 16 blocks
  const auto reserved = [](DeviceContext& context) {
    return device::cuda::cuda_stream(context.compute()).card().reserved();
  };
  with_cards(2, [&](const CardWorld& w) { EXPECT_EQ(reserved(w.context), expected); }, {.beside_products = traffic});
  with_cards(2, [&](const CardWorld& w) { EXPECT_EQ(reserved(w.context), 0); });
  with_cards(1, [&](const CardWorld& w) { EXPECT_EQ(reserved(w.context), 0); }, {.beside_products = traffic});
  with_ranks(2, [&](const ProcessGroup& world) {
    DeviceContext context({.kind = DeviceKind::cuda, .place = world.rank()});
    make_device_group(world, context, {.collectives = DeviceCollectives::host, .beside_products = traffic});
    EXPECT_EQ(reserved(context), 0);
  });
}

TEST(MultiprocessorsOf, CountsAFewBlocksOutsideOfClustersTwice) {
  const auto messages = [](int operations) {
    return nccl::multiprocessors_of(
        std::array{TrafficBeside{.traffic = TrafficClass::tp, .messages = true, .operations = operations}});
  };
  EXPECT_EQ(messages(1), 8);    // two clusters of four blocks
  EXPECT_EQ(messages(4), 32);   // four operations with two clusters each
  EXPECT_EQ(messages(6), 38);   // 6 x 5 blocks, of which eight count twice, because 5 is no multiple of four
  EXPECT_EQ(messages(16), 40);  // 16 x 2 blocks, of which eight count twice, because 2 is no multiple of four
}

TEST(DeviceGroup, ReservesAtMostAQuarterOfTheCardRoundedUpToPairs) {
  const std::vector<TrafficBeside> traffic(9, {.traffic = TrafficClass::dp});
  with_cards(
      2, [](const CardWorld& w) { EXPECT_EQ(device::cuda::cuda_stream(w.context.compute()).card().reserved(), 34); },
      {.beside_products = traffic});
}

TEST(DeviceGroup, IsNotMadeIfHostIsRequested) {
  with_ranks(2, [&](const ProcessGroup& world) {
    DeviceContext context({.kind = DeviceKind::cuda, .place = world.rank()});
    EXPECT_EQ(make_device_group(world, context, {.collectives = DeviceCollectives::host}), nullptr);
    check_ring(world, {.kind = DeviceKind::cuda, .place = world.rank()});
  });
}

}  // namespace
}  // namespace hexad::comm
