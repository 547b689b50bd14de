// Dependencies between operations in an IssueLog.
#include "framework/device/meta/issue_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "framework/base/ordinal.h"
#include "framework/device/meta/meta_stream.h"

namespace hexad::device {
namespace {

using Issues = std::vector<int32_t>;

int32_t add_kernel(IssueLog& log, Lane lane) { return log.add("kernel", "", lane, MemoryWork{1}); }
int32_t add_exchange(IssueLog& log, Lane lane) {
  return log.add("comm", "all_to_all", lane, CommunicationWork{.group = 0, .sent = 1, .received = 1});
}
const Issues& after(const IssueLog& log, int32_t issue) { return log.issues()[issue].after; }

// Plain version of a log with Host::launches. It keeps all waits, and leaves redundant ones out of its results.
class PlainLog {
 public:
  void wait(Lane lane, int32_t issue) {
    if (communicates_[issue] || lanes_[issue] != lane) waits_[base::ordinal(lane)].insert(issue);
  }
  void wait_on_host(int32_t issue) {
    for (std::set<int32_t>& waits : waits_) waits.insert(issue);
  }
  // Appends an operation and returns the operations that it follows.
  Issues add(Lane lane, bool communicates) {
    std::set<int32_t>& waits = waits_[base::ordinal(lane)];
    std::set<int32_t> before = waits;
    if (!communicates) waits.clear();
    for (size_t i = lanes_.size(); communicates && i-- > 0;)
      if (lanes_[i] == lane && !communicates_[i]) {
        before.insert(static_cast<int32_t>(i));
        break;
      }
    std::array<int32_t, lane_count> last{};
    for (const int32_t i : before)
      if (!communicates_[i]) last[base::ordinal(lanes_[i])] = i;
    std::erase_if(before, [&](int32_t i) { return !communicates_[i] && last[base::ordinal(lanes_[i])] != i; });
    lanes_.push_back(lane), communicates_.push_back(communicates);
    return {before.begin(), before.end()};
  }

 private:
  std::vector<Lane> lanes_;
  std::vector<bool> communicates_;
  std::array<std::set<int32_t>, lane_count> waits_;
};

TEST(IssueLog, HasTheWaitsOfAPlainLog) {
  IssueLog log(IssueLog::Host::launches);
  PlainLog plain;
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  for (int n = 0; n < 1000; ++n) {
    const auto lane = static_cast<Lane>(below(lane_count)), other = static_cast<Lane>(below(lane_count));
    const size_t issues = log.issues().size();
    const auto wait_for = [&](int32_t issue) { log.wait(lane, issue), plain.wait(lane, issue); };
    for (size_t waits = below(20) == 0 ? 100 : below(4); issues > 0 && waits > 0; --waits) {
      const size_t latest = std::min<size_t>(issues, 5);  // half of the waits are for the latest operations
      wait_for(static_cast<int32_t>(below(2) == 0 ? below(issues) : issues - 1 - below(latest)));
    }
    if (const auto mark = log.mark_of(other); mark && below(4) == 0)
      for (const int32_t issue : mark->issues()) wait_for(issue);
    if (issues > 0 && below(10) == 0) {
      const auto issue = static_cast<int32_t>(below(issues));
      log.wait_on_host(issue), plain.wait_on_host(issue);
    }
    const bool communicates = lane == Lane::inter || below(4) > 0;  // lane inter never clears its waits
    const int32_t number = communicates ? add_exchange(log, lane) : add_kernel(log, lane);
    ASSERT_EQ(after(log, number), plain.add(lane, communicates)) << "operation " << number;
  }
}

TEST(IssueLog, LaneThatOnlyCommunicatesWaitsForTheLastKernelOfAnotherLane) {
  IssueLog log(IssueLog::Host::launches);
  for (int i = 0; i < 3; ++i) {
    const int32_t kernel = add_kernel(log, Lane::compute);
    log.wait(Lane::inter, kernel);
    EXPECT_EQ(after(log, add_exchange(log, Lane::inter)), Issues{kernel});
  }
}

TEST(IssueLog, LaneThatOnlyCommunicatesKeepsItsWaits) {
  IssueLog log(IssueLog::Host::launches);
  const int32_t kernel = add_kernel(log, Lane::compute), copy = add_kernel(log, Lane::copy);
  log.wait(Lane::inter, kernel), log.wait(Lane::inter, copy);
  add_exchange(log, Lane::inter);
  EXPECT_EQ(after(log, add_exchange(log, Lane::inter)), (Issues{kernel, copy}));
}

TEST(IssueLog, KernelWaitsForAllAwaitedCommunicationOnce) {
  IssueLog log(IssueLog::Host::launches);
  const int32_t one = add_exchange(log, Lane::inter), two = add_exchange(log, Lane::inter);
  log.wait(Lane::compute, two), log.wait(Lane::compute, one), log.wait(Lane::compute, one);
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), (Issues{one, two}));
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), Issues{}) << "the lane has already waited";
}

TEST(IssueLog, MarksOfLanesThatWaitForEachOtherStayShort) {
  IssueLog log(IssueLog::Host::computes_beside_lanes);
  const int32_t one = add_exchange(log, Lane::inter), two = add_exchange(log, Lane::inter);
  log.wait(Lane::copy, one), log.wait(Lane::intra, two);
  size_t longest = 0;
  for (int i = 0; i < 40; ++i) {  // if each wait doubled the marks, they would have 2^40 entries
    const auto copied = log.mark_of(Lane::copy), reduced = log.mark_of(Lane::intra);
    log.wait(Lane::intra, *copied), log.wait(Lane::copy, *reduced);
    longest = std::max({longest, copied->issues().size(), reduced->issues().size()});
  }
  EXPECT_LT(longest, 200u);
  EXPECT_EQ(after(log, add_kernel(log, Lane::copy)), (Issues{one, two}));
}

TEST(IssueLog, OperationsThatWereTakenOutAreStillAwaited) {
  IssueLog log(IssueLog::Host::launches);
  const int32_t kernel = add_kernel(log, Lane::copy), exchange = add_exchange(log, Lane::inter);
  const auto mark = log.mark(exchange);
  EXPECT_EQ(log.take_issues().size(), 2U);
  EXPECT_TRUE(log.issues().empty());
  EXPECT_EQ(log.count(), 2);
  EXPECT_TRUE(log.communicates(exchange) && !log.communicates(kernel));
  log.wait(Lane::compute, kernel), log.wait(Lane::compute, *mark);
  EXPECT_EQ(add_kernel(log, Lane::compute), 2);
  EXPECT_EQ(log.issues().front().after, (Issues{kernel, exchange}));
}

TEST(IssueLog, HostWaitsApplyToOtherLanes) {
  IssueLog log(IssueLog::Host::launches);
  const int32_t first = add_kernel(log, Lane::copy), last = add_kernel(log, Lane::copy);
  log.wait_on_host(first), log.wait_on_host(last);
  for (const Lane lane : {Lane::compute, Lane::intra}) EXPECT_EQ(after(log, add_kernel(log, lane)), Issues{last});
  EXPECT_EQ(after(log, add_exchange(log, Lane::inter)), Issues{last});
}

TEST(IssueLog, LanesWithThreadsRunBesideTheIssuingThread) {
  IssueLog log(IssueLog::Host::computes_beside_lanes);
  const int32_t kernel = add_kernel(log, Lane::compute), copy = add_kernel(log, Lane::copy);
  EXPECT_EQ(log.issues()[copy].lane, Lane::copy);
  EXPECT_EQ(after(log, copy), Issues{kernel}) << "the issuing thread runs the kernel before it reaches the copy";
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), Issues{}) << "the issuing thread does not wait for the copy";
  log.wait(Lane::inter, copy);
  const int32_t exchange = add_exchange(log, Lane::inter);
  EXPECT_TRUE(std::ranges::find(after(log, exchange), copy) != after(log, exchange).end());
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), Issues{}) << "only lane inter waits for the copy";
}

TEST(IssueLog, WaitsOfTheComputeLaneBlockTheIssuingThread) {
  IssueLog log(IssueLog::Host::computes_beside_lanes);
  const int32_t copy = add_kernel(log, Lane::copy);
  log.wait(Lane::compute, copy);
  EXPECT_EQ(after(log, add_exchange(log, Lane::inter)), Issues{copy}) << "the thread reaches lane inter after its wait";
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), Issues{copy});
}

TEST(MetaStream, RunsAtOnceUnlessItImitatesALaneWithAThread) {
  EXPECT_TRUE(MetaStream(Lane::copy, nullptr).runs_at_once());
  MetaStream stream(Lane::copy, nullptr, true);
  EXPECT_FALSE(stream.runs_at_once());
  EXPECT_FALSE(stream.starts_late());
  bool ran = false;
  stream.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(MetaStream, RecordsTheWaitsAfterItsLastOperation) {
  IssueLog log(IssueLog::Host::launches);
  MetaStream inter(Lane::inter, &log), compute(Lane::compute, &log);
  const int32_t copy = add_kernel(log, Lane::inter), one = add_exchange(log, Lane::inter);
  inter.wait(Event::at(log.mark(one)));
  compute.wait(inter.record());
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), (Issues{copy, one}));
  const int32_t two = add_exchange(log, Lane::inter);  // waits for `one`, so a mark after `two` includes `one`
  inter.wait(Event::at(log.mark(two)));
  compute.wait(inter.record());
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), (Issues{copy, two}));
}

TEST(MetaStream, RecordsTheWaitsOfACollectiveForWhichItDoesNotWait) {
  IssueLog log(IssueLog::Host::launches);
  MetaStream inter(Lane::inter, &log), compute(Lane::compute, &log);
  const int32_t copy = add_kernel(log, Lane::copy);
  inter.wait(Event::at(log.mark(copy)));
  const int32_t exchange = add_exchange(log, Lane::inter);
  compute.wait(inter.record());
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), Issues{copy});
  inter.wait(Event::at(log.mark(exchange)));
  compute.wait(inter.record());
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), Issues{exchange}) << "the exchange follows the copy";
}

TEST(MetaStream, HostWaitsForAllOperationsThatAnEventRecorded) {
  IssueLog log(IssueLog::Host::launches);
  MetaStream inter(Lane::inter, &log);
  const int32_t exchange = add_exchange(log, Lane::intra);
  inter.wait(Event::at(log.mark(exchange)));
  inter.record().wait();
  EXPECT_EQ(after(log, add_kernel(log, Lane::compute)), Issues{exchange});
}

TEST(IssueLog, OperationsDuringAPauseAreNotAwaited) {
  IssueLog log(IssueLog::Host::launches);
  int32_t paused = 0;
  {
    const IssueLog::Pause pause(&log);
    paused = add_kernel(log, Lane::compute);
  }
  EXPECT_EQ(paused, -1);
  log.wait(Lane::inter, paused), log.wait_on_host(paused);
  EXPECT_EQ(after(log, add_exchange(log, Lane::inter)), Issues{});
}

}  // namespace
}  // namespace hexad::device
