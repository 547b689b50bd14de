#include "parallel/comm/issue_queue.h"

#include <gtest/gtest.h>

#include "framework/device/context.h"

namespace hexad::comm {
namespace {

constexpr int64_t piece = 16384;  // the least that is cut

// Queues messages, which have as many rounds as pieces, and reads back what starts.
class Queue : public testing::Test {
 protected:
  RequestPtr post(TrafficClass traffic, int communicator, int pieces, bool ready = true) {
    auto r = std::make_shared<Request>();
    r->channel = {.communicator = communicator};
    r->traffic = traffic;
    r->group = cat(name_of(traffic), communicator);
    r->members = std::make_shared<const std::vector<int>>(std::vector{0, 1});
    r->operation = {
        .kind = Operation::Kind::send, .in = Tensor::zeros({pieces * piece}, Dtype::u8, context), .peer = 1};
    r->ready = ready;
    queue.post(r);
    return r;
  }
  // Names of what starts until nothing more may: "ep1.0 dp2.0".
  std::string starts() {
    std::string text;
    while (true) {
      const IssueQueue::Start s = queue.next();
      if (!s.request) return text;
      text += cat(text.empty() ? "" : " ", s.request->group, ".", s.round);
      in_flight.push_back(s);
    }
  }
  void finish_oldest() {
    queue.finish(in_flight.front().request, in_flight.front().round);
    in_flight.erase(in_flight.begin());
  }

  device::DeviceContext context;
  IssueQueue queue{3 * piece, piece};
  std::vector<IssueQueue::Start> in_flight;
};

TEST_F(Queue, TheFirstRoundOfEveryChannelStartsAndTheFirstClassGetsTheRest) {
  post(TrafficClass::dp, 1, 9);
  post(TrafficClass::ep, 2, 9);
  EXPECT_EQ(starts(), "ep2.0 dp1.0 ep2.1");
  finish_oldest();
  EXPECT_EQ(starts(), "ep2.2");
}

TEST_F(Queue, AChannelMayAlwaysStartOneRoundWhateverTheWindow) {
  post(TrafficClass::ep, 1, 9);
  EXPECT_EQ(starts(), "ep1.0 ep1.1 ep1.2");
  post(TrafficClass::dp, 2, 2);
  EXPECT_EQ(starts(), "dp2.0");
}

TEST_F(Queue, ALowerClassFillsTheWindowOnlyWhenHigherOnesAreStarted) {
  post(TrafficClass::dp, 1, 9);
  post(TrafficClass::tp, 2, 1);
  EXPECT_EQ(starts(), "tp2.0 dp1.0 dp1.1");
}

TEST_F(Queue, ClassesGoAsTheyAreToldTo) {
  queue.prioritize({.of_class = {0, 5, 4, 3, 2, 1}});
  post(TrafficClass::ep, 1, 9);
  post(TrafficClass::dp, 2, 9);
  EXPECT_EQ(starts(), "dp2.0 ep1.0 dp2.1");
}

TEST_F(Queue, ByArrivalNeitherClassesNorWaitingMatter) {
  queue.prioritize(Priorities::by_arrival());
  post(TrafficClass::dp, 2, 9);
  const RequestPtr waited = post(TrafficClass::ep, 1, 9);
  queue.lift(*waited);
  EXPECT_EQ(starts(), "dp2.0 ep1.0 dp2.1");
}

TEST_F(Queue, OperationsOfAChannelStartInOrder) {
  const RequestPtr first = post(TrafficClass::ep, 1, 1, false), second = post(TrafficClass::ep, 1, 1);
  EXPECT_EQ(starts(), "");  // the second is ready, but not its turn
  first->ready = true;
  EXPECT_EQ(starts(), "ep1.0 ep1.0");
  EXPECT_EQ(in_flight[0].request, first);
  EXPECT_EQ(in_flight[1].request, second);
}

TEST_F(Queue, WaitingLiftsTheWholePrefixOfTheChannel) {
  post(TrafficClass::ep, 1, 9);
  post(TrafficClass::dp, 2, 2);
  const RequestPtr waited = post(TrafficClass::dp, 2, 2);
  post(TrafficClass::dp, 2, 9);
  queue.lift(*waited);
  EXPECT_EQ(starts(), "dp2.0 ep1.0 dp2.1");
  for (int i = 0; i < 3; ++i) finish_oldest();
  EXPECT_EQ(starts(), "dp2.0 ep1.1 dp2.1");  // still ahead: the one that is waited for
  for (int i = 0; i < 3; ++i) finish_oldest();
  EXPECT_EQ(starts(), "ep1.2 dp2.0 ep1.3");  // what comes after it is not
}

TEST_F(Queue, ARoundWaitsForWhatItComesAfter) {
  auto r = post(TrafficClass::dp, 1, 1);
  r->operation = {.kind = Operation::Kind::all_reduce, .out = Tensor::zeros({2 * piece}, Dtype::u8, context)};
  EXPECT_EQ(starts(), "dp1.0");  // the sums are not there yet to be gathered
  finish_oldest();
  EXPECT_EQ(starts(), "dp1.1");
  EXPECT_FALSE(r->done());
  finish_oldest();
  EXPECT_TRUE(r->done());
  EXPECT_TRUE(queue.empty());
}

TEST_F(Queue, OperationsAreNumberedByChannel) {
  EXPECT_EQ(post(TrafficClass::ep, 1, 1)->number, 0);
  EXPECT_EQ(post(TrafficClass::dp, 2, 1)->number, 0);
  EXPECT_EQ(post(TrafficClass::ep, 1, 1)->number, 1);
  while (!queue.empty()) {
    starts();
    finish_oldest();
  }
  EXPECT_EQ(post(TrafficClass::ep, 1, 1)->number, 2);  // also when the channel was empty meanwhile
}

TEST_F(Queue, AChannelOnWhichNothingIsFinishedIsOverdue) {
  const RequestPtr r = post(TrafficClass::ep, 1, 3);
  starts();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  finish_oldest();  // begins anew
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  EXPECT_EQ(queue.overdue(4), r);
}

TEST_F(Queue, WhatIsNotReadyIsOverdueOnlyWhenItIsWaitedFor) {
  const RequestPtr r = post(TrafficClass::ep, 1, 1, false);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  queue.lift(*r);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  queue.make_ready(r);  // now the peers have their time
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  EXPECT_EQ(queue.overdue(4), r);
}

TEST_F(Queue, ACheckedOperationComparesBeforeItsFirstRound) {
  const RequestPtr r = post(TrafficClass::ep, 1, 2);
  r->checked = true;
  EXPECT_EQ(starts(), "ep1.0");
  finish_oldest();
  EXPECT_EQ(starts(), "ep1.1 ep1.2");
}

TEST_F(Queue, EmptyOperationsTakeTheirTurn) {
  const RequestPtr empty = post(TrafficClass::ep, 1, 0);
  EXPECT_EQ(starts(), "ep1.0");
  finish_oldest();
  EXPECT_TRUE(empty->done());
  EXPECT_TRUE(queue.empty());
}

TEST_F(Queue, DirectionsOfAPairAreChannelsOfTheirOwn) {
  const Tensor t = Tensor::zeros({piece}, Dtype::u8, context);
  auto receive = post(TrafficClass::pp, 1, 1, false);
  receive->channel = {1, Channel::Kind::receive, 1};
  EXPECT_EQ(starts(), "");
  auto send = std::make_shared<Request>(*receive);
  send->channel = {1, Channel::Kind::send, 1};
  send->operation = {.kind = Operation::Kind::send, .in = t, .peer = 1};
  send->ready = true;
  queue.post(send);
  EXPECT_EQ(starts(), "pp1.0");
  EXPECT_EQ(in_flight[0].request, send);
}

}  // namespace
}  // namespace hexad::comm
