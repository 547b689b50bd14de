#include "parallel/comm/thread_group.h"

#include <gtest/gtest.h>

#include <atomic>

#include "collectives_check.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::InlineStream;

Tensor filled(float value, Device device) { return Tensor::from<float>(std::span(&value, 1), {1}, device); }

class ThreadRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, ThreadRanks, testing::Values(1, 2, 3, 4));

TEST_P(ThreadRanks, PassTheChecksOfEveryGroup) {
  with_ranks(GetParam(), [](const ProcessGroup& world) {
    check_collectives(world);
    check_uneven_splits(world);
    check_ring(world);
    check_groups_in_flight_together(world);
    check_split(world);
  });
}

TEST_P(ThreadRanks, OperationsOfDifferentStreamsAreMatchedInCallOrder) {
  with_ranks(GetParam(), [](const ProcessGroup& world) {
    DeviceContext context{{.worker_lanes = true}};
    Stream &slow = context.stream(device::Lane::inter), &fast = context.stream(device::Lane::intra);
    const Tensor a = Tensor::zeros({1}, Dtype::i64, context), b = Tensor::zeros({1}, Dtype::i64, context);
    slow.run([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(world.rank()));
      *a.data<int64_t>() = 1;
    });
    const Event first = world.all_reduce(a, Reduce::sum, slow), second = world.all_reduce(b, Reduce::max, fast);
    second.wait();  // waits in the opposite order
    first.wait();
    EXPECT_EQ(*a.data<int64_t>(), world.size());
    EXPECT_EQ(*b.data<int64_t>(), 0);
  });
}

TEST(ThreadGroup, DoesNotBlockTheStream) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const Tensor x = Tensor::zeros({1}, Dtype::f32, context);
    const Event reduced = world.all_reduce(x, Reduce::sum, stream);
    bool went_on = false;
    stream.run([&] { went_on = true; });
    EXPECT_TRUE(went_on);
    reduced.wait();
  });
}

TEST(ThreadGroup, FailingRankMakesItsPeersThrow) {
  std::atomic<int> peers = 0;
  const auto body = [&](const ProcessGroup& world) {
    const auto pairs = world.split(world.rank() / 2, 0, TrafficClass::ep, "pairs");
    if (world.rank() == 1) fail(ExitCode::numeric, "loss is NaN");
    DeviceContext context;
    try {
      pairs->any(false, context);  // rank 0 waits for the failing rank here
      world.any(false, context);   // ranks 2 and 3 wait here
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::peer_lost);
      EXPECT_STREQ(e.what(), "[world] rank 1 ended with an error; see the message of rank 1");
      ++peers;
      throw;
    }
  };
  try {
    with_ranks(4, body);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "loss is NaN");  // the error of the failing rank, not an error of its peers
  }
  EXPECT_EQ(peers, 3);
}

TEST(ThreadGroup, EarlyEndOfARankMakesItsPeersThrow) {
  try {
    with_ranks(3, [](const ProcessGroup& world) {
      DeviceContext context;
      if (world.rank() != 2) world.any(false, context);
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::peer_lost);
    EXPECT_STREQ(e.what(), "[world] rank 2 ended without joining all_reduce of f64 [1]");
  }
}

std::string disagreement(const std::function<Event(const ProcessGroup&, Device, Stream&)>& call) {
  try {
    with_ranks(2, [&](const ProcessGroup& world) {
      DeviceContext context;
      InlineStream stream;
      call(world, context, stream).wait();
    });
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    return e.what();
  }
  return "accepted";
}

// Removes the source positions from "rank 0 calls X at comm/thread_group_test.cpp:N, rank 1 calls Y at ...".
std::string without_places(std::string text) {
  for (size_t at; (at = text.find(" at comm/thread_group_test.cpp:")) != text.npos;)
    text.erase(at, text.find_first_not_of("0123456789", text.find(':', at) + 1) - at);
  return text;
}

TEST(ThreadGroup, DisagreeingRanksAreNamedWithTheirCalls) {
  const std::string both = disagreement([](auto& world, auto d, auto& s) {
    const Tensor x = Tensor::zeros({4}, Dtype::f32, d);
    return world.rank() ? world.broadcast(x, 0, s) : world.all_reduce(x, Reduce::sum, s);
  });
  EXPECT_EQ(without_places(both),
            "[world] ranks disagree about operation 0: rank 0 calls all_reduce of f32 [4], rank 1 calls broadcast of "
            "f32 [4] from 0; expected matching calls in the same order on all ranks");
  EXPECT_NE(without_places(both), both) << "both calls have a source position";
  EXPECT_EQ(without_places(disagreement([](auto& world, auto d, auto& s) {
              return world.all_reduce(Tensor::zeros({4 + world.rank()}, Dtype::f32, d), Reduce::sum, s);
            })),
            "[world] ranks disagree about operation 0: rank 0 calls all_reduce of f32 [4], rank 1 calls all_reduce of "
            "f32 [5]; expected matching calls in the same order on all ranks");
  EXPECT_EQ(without_places(disagreement([](auto& world, auto d, auto& s) {
              const Tensor in = Tensor::zeros({2, 3}, Dtype::bf16, d), out = Tensor::zeros({3, 3}, Dtype::bf16, d);
              return world.rank() ? world.all_to_all(out, in, {{1, 1}, {2, 1}}, s)
                                  : world.all_to_all(out, in, {{1, 1}, {1, 2}}, s);
            })),
            "[world] ranks disagree about operation 0: rank 0 calls all_to_all of bf16 [2, 3], rank 1 calls all_to_all "
            "of bf16 [2, 3]; expected matching calls in the same order on all ranks");
}

TEST(ThreadGroup, WatchdogNamesTheOperationAndTheMissingRank) {
  std::atomic<bool> over = false;
  const auto body = [&](const ProcessGroup& world) {
    const auto half = world.split(world.rank() % 2, 0, TrafficClass::dp, "dp");
    if (world.rank() == 3) return over.wait(false);  // this rank never calls the collective
    DeviceContext context;
    try {
      half->any(false, context);
    } catch (...) {
      over = true;
      over.notify_all();
      throw;
    }
  };
  try {
    with_ranks(4, body, {.watchdog_seconds = 0.1});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    EXPECT_EQ(without_places(e.what()),
              "hang: 0.1 s in operation 0 of group dp (2 ranks), all_reduce of f64 [1]: rank 3 has not arrived; to "
              "blame: rank 3 waits for no other rank: it computes, or hangs in its own code; expected the rank to join "
              "the operation; check its log and the stack of its process; if it computes, increase "
              "distributed.watchdog_seconds");
  }
}

TEST(ThreadGroup, WatchdogNamesAllMissingRanks) {
  std::atomic<bool> over = false;
  const auto body = [&](const ProcessGroup& world) {
    if (world.rank() > 0) return over.wait(false);  // these ranks never call the collective
    DeviceContext context;
    try {
      world.any(false, context);
    } catch (...) {
      over = true;
      over.notify_all();
      throw;
    }
  };
  try {
    with_ranks(3, body, {.watchdog_seconds = 0.1});
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find(": ranks 1, 2 have not arrived; to blame: rank 1 waits for no other rank"), std::string::npos)
        << text;
    EXPECT_NE(text.find("; expected these ranks to join the operation; check their logs"), std::string::npos) << text;
  }
}

TEST(ThreadGroup, WatchdogBlamesTheRankAtTheEndOfTheChain) {
  std::atomic<bool> over = false;
  const auto body = [&](const ProcessGroup& world) {
    const int r = world.rank();  // rank 0 waits for rank 1, and rank 1 for rank 2, which never calls
    const auto low = world.split(r < 2, 0, TrafficClass::dp, "low"),
               high = world.split(r > 0, 0, TrafficClass::tp, "high");
    if (r == 2) return over.wait(false);
    DeviceContext context;
    try {
      (r == 0 ? low : high)->any(false, context);
    } catch (...) {
      over = true;
      over.notify_all();
      throw;
    }
  };
  try {
    with_ranks(3, body, {.watchdog_seconds = 0.1});
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("; to blame: rank 2 waits for no other rank"), std::string::npos) << text;
  }
}

TEST(ThreadGroup, LateOperationsOfDifferentChannelsOvertakeEachOther) {
  // Results are the same for all delays. For at least one seed, the second operation ends before the first.
  std::atomic<int> overtaken = 0;
  for (uint64_t seed = 0; seed < 8; ++seed)
    with_ranks(2,
               [&](const ProcessGroup& world) {
                 const auto other = world.split(0, 0, TrafficClass::dp, "other");
                 DeviceContext context;
                 InlineStream stream;
                 const Tensor a = filled(1, context), b = filled(2, context);
                 const Event first = world.all_reduce(a, Reduce::sum, stream),
                             second = other->all_reduce(b, Reduce::sum, stream);
                 second.wait();
                 if (!first.done()) ++overtaken;
                 first.wait();
                 EXPECT_EQ(a.data<float>()[0], 2);
                 EXPECT_EQ(b.data<float>()[0], 4);
               },
               {.jitter = {.seed = seed, .max_delay = std::chrono::microseconds(2000)}});
  EXPECT_GT(overtaken, 0);
}

TEST_P(ThreadRanks, PassTheChecksOfEveryGroupWithDelays) {
  with_ranks(GetParam(),
             [](const ProcessGroup& world) {
               check_collectives(world);
               check_uneven_splits(world);
               check_ring(world);
               check_groups_in_flight_together(world);
               check_split(world);
             },
             {.jitter = {.seed = 3, .max_delay = std::chrono::microseconds(100)}});
}

TEST(ThreadGroup, MemoryOfACollectiveIsFreeOnceAThreadResumes) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    for (int i = 0; i < 2000; ++i) {
      const Event reduced = world.all_reduce(Tensor::zeros({64}, Dtype::f32, context), Reduce::sum, stream);
      reduced.wait();
      ASSERT_EQ(context.allocator()->stats().total, 0) << "collective " << i;
    }
  });
}

// Options with a patience that is longer than a test. Only a wait, or the end of the ranks, starts a collective.
constexpr ThreadOptions patient{.patience = std::chrono::minutes(2)};

TEST(PatientThreadGroup, StartsACollectiveOnceItIsAwaited) {
  with_ranks(
      2,
      [](const ProcessGroup& world) {
        DeviceContext context;
        InlineStream stream;
        const Tensor x = filled(1, context), token = filled(0, context);
        const Event reduced = world.all_reduce(x, Reduce::sum, stream);
        const int peer = 1 - world.rank();
        const Event sent = world.send(token, peer, stream);  // messages start at once
        world.receive(filled(0, context), peer, stream).wait();
        EXPECT_FALSE(reduced.done()) << "both ranks have called it, but this rank has not waited";
        reduced.wait();
        EXPECT_EQ(x.data<float>()[0], 2);
        sent.wait();
      },
      patient);
}

TEST(PatientThreadGroup, StartsACollectiveOfStagesAtOnce) {
  with_ranks(
      2,
      [](const ProcessGroup& world) {
        DeviceContext context;
        InlineStream stream;
        const auto stages = world.split(0, world.rank(), TrafficClass::pp, "stages");
        const Event reduced = stages->all_reduce(filled(1, context), Reduce::sum, stream);
        const int peer = 1 - world.rank();
        const Event sent = world.send(filled(0, context), peer, stream);
        world.receive(filled(0, context), peer, stream).wait();  // the peer has called the collective
        EXPECT_TRUE(reduced.done());
        sent.wait();
      },
      patient);
}

TEST(StagePause, DelaysMessagesAndCollectivesOfStages) {
  constexpr std::chrono::milliseconds length(20);
  with_ranks(2,
             [&](const ProcessGroup& world) {
               DeviceContext context;
               InlineStream stream;
               const auto stages = world.split(0, world.rank(), TrafficClass::pp, "stages");
               const auto time_of = [](const auto& call) {
                 const auto start = std::chrono::steady_clock::now();
                 call();
                 return std::chrono::steady_clock::now() - start;
               };
               Event event;
               if (world.rank() == 0) {
                 stages->receive(filled(0, context), 1, stream).wait();
               } else {
                 EXPECT_GE(time_of([&] { event = stages->send(filled(0, context), 0, stream); }), length);
                 event.wait();
               }
               const auto reduction =
                   time_of([&] { event = stages->all_reduce(filled(1, context), Reduce::sum, stream); });
               if (world.rank() == 1) {
                 EXPECT_GE(reduction, length);
               }
               event.wait();
               if (world.rank() == 0) {
                 stages->send(filled(0, context), 1, stream).wait();
               } else {
                 const auto receipt = time_of([&] { event = stages->receive(filled(0, context), 0, stream); });
                 EXPECT_GE(receipt, length);
                 event.wait();
               }
             },
             {.stage_pause = {.length = length, .ahead = 0}});
}

TEST(StagePause, DoesNotDelayTheRankThatIsAhead) {
  with_ranks(1,
             [](const ProcessGroup& world) {
               DeviceContext context;
               InlineStream stream;
               const auto stages = world.split(0, 0, TrafficClass::pp, "stages");
               stages->all_reduce(filled(1, context), Reduce::sum, stream).wait();
             },
             {.stage_pause = {.length = std::chrono::hours(1), .ahead = 0}});  // a pause would exceed the test's time
}

TEST(PatientThreadGroup, EndsAlthoughNobodyAwaitsACollective) {
  with_ranks(
      2,
      [](const ProcessGroup& world) {
        DeviceContext context;
        InlineStream stream;
        world.all_reduce(filled(1, context), Reduce::sum, stream);
      },
      patient);
}

TEST(PatientThreadGroup, StartsACollectiveWhenItsPatienceEnds) {
  with_ranks(2,
             [](const ProcessGroup& world) {
               DeviceContext context;
               InlineStream stream;
               const Event first = world.all_reduce(filled(1, context), Reduce::sum, stream);
               const Event second = world.all_reduce(filled(1, context), Reduce::sum, stream);
               (world.rank() == 0 ? first : second).wait();  // each rank first waits for another collective
               (world.rank() == 0 ? second : first).wait();
             },
             {.patience = std::chrono::milliseconds(1)});
}

TEST_P(ThreadRanks, PassTheChecksOfEveryGroupWithPatience) {
  with_ranks(GetParam(),
             [](const ProcessGroup& world) {
               check_collectives(world);
               check_uneven_splits(world);
               check_ring(world);
               check_groups_in_flight_together(world);
               check_split(world);
             },
             {.patience = std::chrono::milliseconds(20)});
}

TEST(ThreadGroup, EndingRankDeliversItsLateMessage) {
  with_ranks(2,
             [](const ProcessGroup& world) {
               DeviceContext context;
               InlineStream stream;
               const Tensor x = filled(static_cast<float>(world.rank()), context);
               if (world.rank() == 1) {
                 world.send(x, 0, stream);
               } else {
                 world.receive(x, 1, stream).wait();
                 EXPECT_EQ(x.data<float>()[0], 1);
               }
             },
             {.jitter = {.seed = 1, .max_delay = std::chrono::microseconds(5000)}});
}

TEST(ThreadGroup, ReportsWhetherItCrossesNodes) {
  with_ranks(4, [](const ProcessGroup& world) { EXPECT_FALSE(world.crosses_nodes()); });
  with_ranks(4,
             [](const ProcessGroup& world) {
               EXPECT_TRUE(world.crosses_nodes());
               EXPECT_FALSE(world.split(world.rank() / 2, 0, TrafficClass::tp, "tp")->crosses_nodes());
               EXPECT_EQ(world.split(world.rank() % 2, 0, TrafficClass::dp, "dp")->node_of_rank(), (std::vector{0, 1}));
             },
             {.node_of_rank = {0, 0, 1, 1}});
}

TEST(ThreadGroup, RepeatedSplitsAreSeparateGroups) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context;
    const auto ascending = world.split(0, world.rank(), TrafficClass::dp, "ascending"),
               descending = world.split(0, -world.rank(), TrafficClass::dp, "descending");
    const int64_t mine = world.rank();
    EXPECT_EQ(ascending->all_gather_values(std::span(&mine, 1), context), (std::vector<int64_t>{0, 1}));
    EXPECT_EQ(descending->all_gather_values(std::span(&mine, 1), context), (std::vector<int64_t>{1, 0}));
  });
}

TEST(ThreadGroup, EarlierErrorOnTheStreamReachesTheEvent) {
  with_ranks(1, [](const ProcessGroup& world) {
    DeviceContext context{{.worker_lanes = true}};
    Stream& lane = context.stream(device::Lane::inter);
    lane.run([] { fail(ExitCode::numeric, "NaN before the exchange"); });
    const Event event = world.all_reduce(Tensor::zeros({1}, Dtype::f32, context), Reduce::sum, lane);
    EXPECT_THROW(event.wait(), Error);
  });
}

TEST(ThreadGroup, SumsOfBf16AreRoundedOnceAndTheSameOnAllRanks) {
  with_ranks(4, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    // bf16 has 8 significant bits. 256 + 1 + 1 + 1 is 256 if each sum is rounded to bf16. The result is 260 (259
    // rounded to even) if only the last sum is rounded.
    const Tensor x = Tensor::empty({1}, Dtype::bf16, context);
    *x.data<bf16>() = bf16(world.rank() ? 1.f : 256.f);
    world.all_reduce(x, Reduce::sum, stream).wait();
    EXPECT_EQ(static_cast<float>(*x.data<bf16>()), 260.f);
  });
}

TEST(ThreadGroup, CountsBytesByTrafficClass) {
  with_ranks(2, [](const ProcessGroup& world) {
    DeviceContext context;
    InlineStream stream;
    const auto ep = world.split(0, world.rank(), TrafficClass::ep, "ep");
    const Tensor in = Tensor::zeros({6, 2}, Dtype::f32, context), out = Tensor::zeros({6, 2}, Dtype::f32, context);
    ep->all_to_all(out, in, {{3, 3}, {3, 3}}, stream).wait();
    const TrafficStats stats = world.take(TrafficClass::ep);
    EXPECT_EQ(stats.bytes, 3 * 2 * 4);
    EXPECT_GT(stats.seconds, 0);
    EXPECT_EQ(world.take(TrafficClass::ep).bytes, 0);
    EXPECT_EQ(world.take(TrafficClass::dp).bytes, 0);
  });
}

}  // namespace
}  // namespace hexad::comm
