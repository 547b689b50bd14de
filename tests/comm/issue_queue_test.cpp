#include "parallel/comm/issue_queue.h"

#include <gtest/gtest.h>

#include "framework/device/context.h"

namespace hexad::comm {

using namespace base;
namespace {

constexpr int64_t piece = 16384;  // bytes of a round

// Queues messages with one round for each piece, and reads back the rounds that start.
class Queue : public testing::Test {
 protected:
  RequestPtr post(TrafficClass traffic, int communicator, int pieces, bool ready = true, Link link = Link::network) {
    auto r = std::make_shared<Request>();
    r->link = link;
    r->channel = {.communicator = communicator};
    r->traffic = traffic;
    r->group = cat(name_of(traffic), communicator);
    r->members = std::make_shared<const std::vector<int>>(std::vector{0, 1});
    r->operation = {
        .kind = Operation::Kind::send, .in = Tensor::zeros({pieces * piece}, Dtype::u8, context), .peer = 1};
    r->round_bytes = piece;
    r->ready = ready;
    queue.post(r);
    return r;
  }
  void post_receive(TrafficClass traffic, int communicator) {
    const RequestPtr r = post(traffic, communicator, 0);
    r->operation = {.kind = Operation::Kind::receive, .out = Tensor::zeros({9 * piece}, Dtype::u8, context), .peer = 1};
  }
  // Starts rounds until no more may start. Returns their names, such as "ep1.0 dp2.0".
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
  IssueQueue queue{{.round_bytes = piece, .window_bytes = 3 * piece, .low_window_bytes = 2 * piece}};
  std::vector<IssueQueue::Start> in_flight;
};

TEST_F(Queue, FirstRoundsStartAndTheFirstClassGetsTheRestOfTheWindow) {
  post(TrafficClass::dp, 1, 9);
  post(TrafficClass::ep, 2, 9);
  EXPECT_EQ(starts(), "ep2.0 dp1.0 ep2.1 ep2.2");
}

TEST_F(Queue, ChannelMayStartOneRoundInAFullWindow) {
  post(TrafficClass::ep, 1, 9);
  EXPECT_EQ(starts(), "ep1.0 ep1.1 ep1.2");
  post(TrafficClass::dp, 2, 2);
  EXPECT_EQ(starts(), "dp2.0");
}

TEST_F(Queue, ClassHasTheWholeWindowUntilAHigherClassIsUsed) {
  post(TrafficClass::dp, 1, 9);
  EXPECT_EQ(starts(), "dp1.0 dp1.1 dp1.2");
  post(TrafficClass::ep, 2, 1);
  EXPECT_EQ(starts(), "ep2.0");
  for (int i = 0; i < 4; ++i) finish_oldest();
  EXPECT_EQ(starts(), "dp1.3 dp1.4");  // a message of the higher class may now arrive at any time
}

TEST_F(Queue, LowerClassWaitsWhileAHigherClassProgresses) {
  post(TrafficClass::ep, 1, 5);
  post(TrafficClass::dp, 2, 9);
  EXPECT_EQ(starts(), "ep1.0 dp2.0 ep1.1 ep1.2");  // the peer may not have posted its operation yet
  for (int i = 0; i < 2; ++i) finish_oldest();
  EXPECT_EQ(starts(), "ep1.3");  // the peer has posted its operation, because ep1.0 is done
  for (int i = 0; i < 3; ++i) finish_oldest();
  EXPECT_EQ(starts(), "ep1.4");
  finish_oldest();
  EXPECT_EQ(starts(), "dp2.1 dp2.2");
}

TEST_F(Queue, MissingPeerDelaysNoOtherRequest) {
  const RequestPtr r = post(TrafficClass::ep, 1, 0);
  r->members = std::make_shared<const std::vector<int>>(std::vector{0, 1, 2});
  const int64_t rows = 3 * piece;
  r->operation = {.kind = Operation::Kind::all_to_all,
                  .out = Tensor::zeros({2 * rows}, Dtype::u8, context),
                  .in = Tensor::zeros({2 * rows}, Dtype::u8, context),
                  .splits = {{0, rows, rows}, {0, rows, rows}}};
  r->operation.splits.receive[2] = 0;  // rank 2 sends no rows
  r->operation.out = Tensor::zeros({rows}, Dtype::u8, context);
  post(TrafficClass::dp, 2, 9);
  EXPECT_EQ(starts(), "ep1.0 dp2.0");
  for (int i = 0; i < 2; ++i) finish_oldest();
  EXPECT_EQ(starts(), "ep1.1 dp2.1 dp2.2");
}

// This rank exchanges nothing with rank 2 in the all-to-all. But rank 1 may wait in the all-to-all for rank 2, which
// may wait for the dp message.
TEST_F(Queue, ExchangeWithoutRowsForARankDelaysNoOtherRequest) {
  const RequestPtr r = post(TrafficClass::ep, 1, 0);
  r->members = std::make_shared<const std::vector<int>>(std::vector{0, 1, 2});
  const int64_t rows = 3 * piece;
  r->operation = {.kind = Operation::Kind::all_to_all,
                  .out = Tensor::zeros({rows}, Dtype::u8, context),
                  .in = Tensor::zeros({rows}, Dtype::u8, context),
                  .splits = {{0, rows, 0}, {0, rows, 0}}};
  post(TrafficClass::dp, 2, 9);
  EXPECT_EQ(starts(), "ep1.0 dp2.0 ep1.1 ep1.2");
  for (int i = 0; i < 2; ++i) finish_oldest();
  EXPECT_EQ(starts(), "dp2.1 dp2.2");
}

// A message occupies no part of the window until its peer has begun to receive it.
TEST_F(Queue, UnansweredMessagesTakeNoRoomInAWindow) {
  post(TrafficClass::ep, 1, 1);
  EXPECT_EQ(starts(), "ep1.0");
  finish_oldest();  // class ep is in use
  post(TrafficClass::dp, 3, 9);
  EXPECT_EQ(starts(), "dp3.0");
  post(TrafficClass::pp, 2, 9);
  EXPECT_EQ(starts(), "pp2.0");
  finish_oldest();
  EXPECT_EQ(starts(), "dp3.1 dp3.2");
}

// The peer may delay its side of a round until the higher class ends. Until then, the round must not occupy the window.
TEST_F(Queue, StalledChannelsTakeNoRoomInAWindow) {
  post(TrafficClass::ep, 1, 1);
  EXPECT_EQ(starts(), "ep1.0");
  finish_oldest();  // class ep is in use, so lower classes yield
  post(TrafficClass::dp, 3, 9);
  EXPECT_EQ(starts(), "dp3.0");
  finish_oldest();
  EXPECT_EQ(starts(), "dp3.1 dp3.2");
  post(TrafficClass::pp, 2, 9);
  EXPECT_EQ(starts(), "pp2.0");
  std::swap(in_flight.front(), in_flight.back());
  finish_oldest();  // pp progresses, dp does not
  EXPECT_EQ(starts(), "pp2.1 pp2.2");
}

TEST_F(Queue, SendsAndReceivesHaveSeparateWindows) {
  post_receive(TrafficClass::pp, 1);
  EXPECT_EQ(starts(), "pp1.0 pp1.1 pp1.2");
  post(TrafficClass::pp, 2, 9);
  EXPECT_EQ(starts(), "pp2.0 pp2.1 pp2.2");
  post_receive(TrafficClass::dp, 3);
  EXPECT_EQ(starts(), "dp3.0");
}

// Smaller rounds could keep the window full forever if they could overtake a round that does not fit.
TEST_F(Queue, RoundWithoutSpaceBlocksSmallerRoundsOfItsDirection) {
  queue.limit({.round_bytes = piece, .window_bytes = 3 * piece + piece / 2});
  post(TrafficClass::ep, 1, 9);
  EXPECT_EQ(starts(), "ep1.0 ep1.1 ep1.2");
  const RequestPtr small = post(TrafficClass::ep, 2, 0);
  small->operation.in = Tensor::zeros({piece + piece / 4}, Dtype::u8, context);
  EXPECT_EQ(starts(), "ep2.0");
  finish_oldest();
  EXPECT_EQ(starts(), "") << "ep2.1 must wait for ep1.3, although ep2.1, a quarter of a piece, fits";
  post_receive(TrafficClass::ep, 3);
  EXPECT_EQ(starts(), "ep3.0 ep3.1 ep3.2");
}

TEST_F(Queue, LinksDoNotWaitForEachOther) {
  const auto post_inside = [&] { post(TrafficClass::dp, 2, 1, true, Link::node); };
  post(TrafficClass::ep, 1, 9);
  EXPECT_EQ(starts(), "ep1.0 ep1.1 ep1.2");
  for (int i = 0; i < 3; ++i) finish_oldest();
  post_inside();
  EXPECT_EQ(starts(), "ep1.3 dp2.0 ep1.4 ep1.5");
}

TEST_F(Queue, AwaitedRequestsDoNotWaitForAHigherClass) {
  post(TrafficClass::ep, 1, 9);
  EXPECT_EQ(starts(), "ep1.0 ep1.1 ep1.2");
  finish_oldest();
  const RequestPtr waited = post(TrafficClass::dp, 2, 1);
  EXPECT_EQ(starts(), "ep1.3");
  queue.boost(*waited);
  EXPECT_EQ(starts(), "dp2.0");
}

TEST_F(Queue, UrgentCommunicatorsPrecedeTheRestOfTheirClass) {
  const auto post_urgent = [&](int communicator) {
    auto r = post(TrafficClass::dp, communicator, 2, false);
    auto u = std::make_shared<Request>(*r);
    r->ready = true;  // `r` is a normal request, for comparison
    u->group = cat("urgent", communicator);
    u->channel.urgency = Urgency::urgent;
    u->ready = true;
    queue.post(u);
    return u;
  };
  post_urgent(1);
  EXPECT_EQ(starts(), "urgent1.0 dp1.0 urgent1.1");
  for (int i = 0; i < 3; ++i) finish_oldest();
  EXPECT_EQ(starts(), "dp1.1");
  finish_oldest();
  queue.prioritize(Priorities::by_arrival());
  post_urgent(1);
  EXPECT_EQ(starts(), "dp1.0 urgent1.0 dp1.1");
}

TEST_F(Queue, YieldingRequestsAreNotOverdue) {
  post(TrafficClass::ep, 1, 9);
  starts();
  finish_oldest();
  post(TrafficClass::dp, 2, 1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(queue.overdue(4), nullptr);
    starts();
  }
  finish_oldest();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  EXPECT_EQ(queue.overdue(4)->traffic, TrafficClass::ep);
}

TEST_F(Queue, ClassesFollowTheGivenPriorities) {
  queue.prioritize({.of_class = {0, 5, 4, 3, 2, 1}});
  post(TrafficClass::ep, 1, 9);
  post(TrafficClass::dp, 2, 9);
  EXPECT_EQ(starts(), "dp2.0 ep1.0 dp2.1 dp2.2");
}

TEST_F(Queue, ArrivalOrderIgnoresClassesAndWaiting) {
  queue.prioritize(Priorities::by_arrival());
  post(TrafficClass::dp, 2, 9);
  const RequestPtr waited = post(TrafficClass::ep, 1, 9);
  queue.boost(*waited);
  EXPECT_EQ(starts(), "dp2.0 ep1.0 dp2.1");
}

TEST_F(Queue, OperationsOfAChannelStartInOrder) {
  const RequestPtr first = post(TrafficClass::ep, 1, 1, false), second = post(TrafficClass::ep, 1, 1);
  EXPECT_EQ(starts(), "");  // the second request is ready, but must not overtake the first
  first->ready = true;
  EXPECT_EQ(starts(), "ep1.0 ep1.0");
  EXPECT_EQ(in_flight[0].request, first);
  EXPECT_EQ(in_flight[1].request, second);
}

TEST_F(Queue, WaitingRaisesAllEarlierRequestsOfTheChannel) {
  post(TrafficClass::ep, 1, 9);
  post(TrafficClass::dp, 2, 2);
  const RequestPtr waited = post(TrafficClass::dp, 2, 2);
  post(TrafficClass::dp, 2, 9);
  queue.boost(*waited);
  EXPECT_EQ(starts(), "dp2.0 ep1.0 dp2.1");
  for (int i = 0; i < 3; ++i) finish_oldest();
  EXPECT_EQ(starts(), "dp2.0 ep1.1 dp2.1");  // dp2 is still first, because a thread waits for it
  for (int i = 0; i < 3; ++i) finish_oldest();
  EXPECT_EQ(starts(), "ep1.2 ep1.3 ep1.4");  // the request after the awaited request has normal priority
}

TEST_F(Queue, RoundWaitsForItsPredecessor) {
  auto r = post(TrafficClass::dp, 1, 1);
  r->operation = {.kind = Operation::Kind::all_reduce, .out = Tensor::zeros({2 * piece}, Dtype::u8, context)};
  EXPECT_EQ(starts(), "dp1.0");  // the sums that are gathered are not complete yet
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
  EXPECT_EQ(post(TrafficClass::ep, 1, 1)->number, 2);  // numbers continue although the channel was empty in between
}

TEST_F(Queue, ChannelWithoutProgressIsOverdue) {
  const RequestPtr r = post(TrafficClass::ep, 1, 3);
  starts();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  finish_oldest();  // restarts the count
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  EXPECT_EQ(queue.overdue(4), r);
}

TEST_F(Queue, OverdueChannelDoesNotEndTheCountsOfLaterChannels) {
  const RequestPtr first = post(TrafficClass::ep, 1, 1), second = post(TrafficClass::ep, 2, 1);
  queue.boost_all();
  starts();
  for (int i = 0; i < 4; ++i) queue.overdue(4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.overdue(4), first);
  EXPECT_EQ(queue.waited_for(), (std::vector<std::pair<RequestPtr, int>>{{first, 7}, {second, 7}}));
}

TEST_F(Queue, UnreadyRequestsAreOverdueOnlyIfAwaited) {
  const RequestPtr r = post(TrafficClass::ep, 1, 1, false);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  queue.boost(*r);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  queue.make_ready(r);  // the wait for the peers is counted from here on
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.overdue(4), nullptr);
  EXPECT_EQ(queue.overdue(4), r);
}

TEST_F(Queue, CheckedOperationComparesBeforeItsFirstRound) {
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

TEST_F(Queue, DirectionsOfAPairAreSeparateChannels) {
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
