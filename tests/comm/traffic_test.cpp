#include "parallel/comm/traffic.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace hexad::comm {
namespace {

constexpr auto moment = std::chrono::milliseconds(2);

TEST(TrafficMeter, TimeSharedByOperationsCountsOnce) {
  const auto meter = std::make_shared<TrafficMeter>();
  const auto a = Flight::make(meter, TrafficClass::dp), b = Flight::make(meter, TrafficClass::dp);
  const auto begin = std::chrono::steady_clock::now();
  a->begin();
  b->begin();
  std::this_thread::sleep_for(moment);
  a->complete(10);
  b->complete(5);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  const TrafficStats stats = meter->take(TrafficClass::dp);
  EXPECT_EQ(stats.bytes, 15);
  EXPECT_GE(stats.seconds, 0.002);
  EXPECT_LE(stats.seconds, all.count());
  EXPECT_EQ(stats.exposed_seconds, 0);  // no thread waited
  EXPECT_EQ(meter->take(TrafficClass::ep).seconds, 0);
}

TEST(TrafficMeter, OperationsInFlightCountUpToNow) {
  const auto meter = std::make_shared<TrafficMeter>();
  const auto flight = Flight::make(meter, TrafficClass::ep);
  flight->begin();
  std::this_thread::sleep_for(moment);
  EXPECT_GE(meter->take(TrafficClass::ep).seconds, 0.002);
  flight->complete(1);
  EXPECT_EQ(meter->take(TrafficClass::ep).bytes, 1);
}

TEST(Flight, BlockedTimeIsExposed) {
  const auto meter = std::make_shared<TrafficMeter>();
  std::thread peer;
  // The wait starts the thread that ends the operation, so the operation cannot end before its waiter blocks.
  std::shared_ptr<Flight> flight;
  flight = Flight::make(meter, TrafficClass::tp, [&] {
    peer = std::thread([&] {
      std::this_thread::sleep_for(moment);
      flight->complete(0);
    });
  });
  flight->begin();
  flight->event().wait();
  peer.join();
  EXPECT_GE(meter->take(TrafficClass::tp).exposed_seconds, 0.002);
}

// A lane waits for an operation, first while the rank's thread computes, and then while this thread is blocked, too.
TEST(RankThread, WaitsOfLanesCountOnlyWhileTheRanksThreadIsBlocked) {
  const auto meter = std::make_shared<TrafficMeter>();
  {
    const RankThread rank_thread(*meter);
    const auto flight = Flight::make(meter, TrafficClass::ep);
    flight->begin();
    flight->event().expect();  // as a lane does when it begins to wait
    std::this_thread::sleep_for(moment);
    EXPECT_EQ(meter->take(TrafficClass::ep).exposed_seconds, 0);
    {
      const device::BlockedThread blocked;
      std::this_thread::sleep_for(moment);
    }
    const double exposed = meter->take(TrafficClass::ep).exposed_seconds;
    EXPECT_GE(exposed, 0.002);
    std::this_thread::sleep_for(moment);
    EXPECT_EQ(meter->take(TrafficClass::ep).exposed_seconds, 0);
    flight->complete(0);
    const device::BlockedThread blocked;
    std::this_thread::sleep_for(moment);
    EXPECT_EQ(meter->take(TrafficClass::ep).exposed_seconds, 0)
        << "the operation is done, so no thread waits for this class";
  }
  const auto flight = Flight::make(meter, TrafficClass::ep);
  flight->begin();
  flight->event().expect();
  std::this_thread::sleep_for(moment);
  EXPECT_GE(meter->take(TrafficClass::ep).exposed_seconds, 0.002) << "without a RankThread, waits of all threads count";
  flight->complete(0);
}

TEST(RankThread, OwnWaitsCount) {
  const auto meter = std::make_shared<TrafficMeter>();
  const RankThread rank_thread(*meter);
  const auto flight = Flight::make(meter, TrafficClass::pp);
  flight->begin();
  double exposed = 0;
  std::thread peer([&] {  // ends the operation once exposed time is counted, because the waiter then is blocked
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (exposed == 0 && std::chrono::steady_clock::now() < patience)
      exposed = meter->take(TrafficClass::pp).exposed_seconds;
    flight->complete(0);
  });
  flight->event().wait();
  peer.join();
  EXPECT_GT(exposed, 0);
}

TEST(TrafficLog, RecordsDescribedOperationsAndWaitsOfTheRanksThread) {
  const auto meter = std::make_shared<TrafficMeter>();
  EXPECT_FALSE(meter->log().recording());
  meter->log().start();
  const auto waited = Flight::make(meter, TrafficClass::tp), passed = Flight::make(meter, TrafficClass::dp),
             nameless = Flight::make(meter, TrafficClass::ep);
  waited->describe("all_reduce of f32 [8]", false);
  passed->describe("all_gather of f32 [4]", true);
  for (const auto& flight : {waited, passed, nameless}) flight->begin();
  passed->complete(7);
  nameless->complete(1);
  std::thread peer([&] {
    std::this_thread::sleep_for(moment);
    waited->complete(5);
  });
  waited->event().wait();
  peer.join();
  const std::vector<TrafficRecord> records = meter->log().stop();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].what, "all_gather of f32 [4]");
  EXPECT_EQ(records[0].bytes, 7);
  EXPECT_TRUE(records[0].crosses_nodes);
  EXPECT_EQ(records[0].waited_from, 0);
  EXPECT_EQ(records[1].traffic, TrafficClass::tp);
  EXPECT_LE(records[1].begin, records[1].waited_from);
  EXPECT_LE(records[1].waited_from, records[1].end);
  EXPECT_TRUE(meter->log().stop().empty());
}

TEST(TrafficLog, IgnoresWaitsOfOtherThreads) {
  const auto meter = std::make_shared<TrafficMeter>();
  meter->log().start();
  const auto flight = Flight::make(meter, TrafficClass::ep);
  flight->describe("all_to_all", false);
  flight->begin();
  std::thread lane([&] { flight->event().expect(); });
  lane.join();
  flight->complete(0);
  EXPECT_EQ(meter->log().stop().at(0).waited_from, 0);
}

TEST(Flight, FirstCompletionCounts) {
  const auto meter = std::make_shared<TrafficMeter>();
  const auto flight = Flight::make(meter, TrafficClass::pp);
  flight->begin();
  flight->complete(3);
  flight->complete(4, std::make_exception_ptr(std::runtime_error("too late")));
  EXPECT_NO_THROW(flight->event().wait());
  EXPECT_EQ(meter->take(TrafficClass::pp).bytes, 3);
}

}  // namespace
}  // namespace hexad::comm
