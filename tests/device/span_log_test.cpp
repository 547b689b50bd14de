// Timeline of a rank's thread: spans, and the memory in use.
#include "framework/device/span_log.h"
#include "framework/base/ordinal.h"

#include <gtest/gtest.h>

#include "framework/base/clock.h"
#include "framework/device/context.h"

namespace hexad::device {
namespace {

using Recorded = SpanLog::Recorded;

std::vector<std::string> names_of(const std::vector<Recorded>& spans) {
  std::vector<std::string> names;
  for (const Recorded& span : spans) names.push_back(span.name);
  return names;
}

TEST(SpanLog, RecordsOnlySpansThatBeginDuringARecording) {
  DeviceContext context;
  const Span before(context.spans(), "before");
  context.spans().sample();
  context.spans().start();
  { const Span during(context.spans(), "layers.0", "forward"); }
  EXPECT_EQ(names_of(context.spans().stop().host), std::vector<std::string>{"layers.0 forward"});
  { const Span after(context.spans(), "after"); }
  context.spans().start();
  const SpanLog::Records second = context.spans().stop();
  EXPECT_TRUE(second.host.empty()) << "the second recording does not contain the first";
  EXPECT_TRUE(second.device.empty());
}

TEST(SpanLog, EmptySpansAreNumberedLikeOthers) {
  DeviceContext context;
  SpanLog& log = context.spans();
  EXPECT_THROW(log.add_empty("before", -1), std::logic_error);
  log.start();
  const Span outer(log, "outer");
  log.add_empty("empty", log.innermost());
  log.add_empty("inner", 1);
  EXPECT_EQ(log.innermost(), 0) << "empty spans have ended";
  const std::vector<Recorded> spans = log.stop().host;
  EXPECT_EQ(names_of(spans), (std::vector<std::string>{"outer", "empty", "inner"}));
  EXPECT_EQ(spans[1].around, 0);
  EXPECT_EQ(spans[2].around, 1);
}

TEST(SpanLog, SpansMayBeNestedAndEndInAnyOrder) {
  DeviceContext context;
  SpanLog& log = context.spans();
  const double begin = base::now();
  log.start();
  auto outer = std::make_unique<Span>(log, "outer");
  auto inner = std::make_unique<Span>(log, "inner");
  outer.reset();  // ends before the inner span, like spans of interleaved micro-batches
  const Span open(log, "open");
  inner.reset();
  const auto spans = log.stop().host;
  const double end = base::now();
  ASSERT_EQ(names_of(spans), (std::vector<std::string>{"outer", "inner", "open"}));
  for (const Recorded& span : spans) {
    EXPECT_LE(begin, span.begin);
    EXPECT_LE(span.begin, span.end);
    EXPECT_LE(span.end, end) << "open spans end with the recording";
  }
  EXPECT_LE(spans[0].end, spans[1].end);
}

TEST(SpanLog, SpansDoNotCrossRecordings) {
  DeviceContext context;
  SpanLog& log = context.spans();
  log.start();
  auto early = std::make_unique<Span>(log, "early");
  log.stop();
  log.start();
  const Span late(log, "late");
  early.reset();
  const auto spans = log.stop().host;
  ASSERT_EQ(names_of(spans), std::vector<std::string>{"late"});
}

TEST(SpanLog, MemoryIsRecordedByCategory) {
  DeviceContext context;
  SpanLog& log = context.spans();
  log.start();
  void* const block = context.allocator()->allocate(1000, Category::activation);
  log.sample();
  const auto samples = log.stop().memory;
  context.allocator()->deallocate(block, 1000, Category::activation);
  ASSERT_GE(samples.size(), 2u);
  const auto at = [](const SpanLog::Sample& s) { return s.used[base::ordinal(Category::activation)]; };
  EXPECT_EQ(at(samples.front()), 0);
  EXPECT_GE(at(samples.back()), 1000);
  for (size_t i = 1; i < samples.size(); ++i) EXPECT_LE(samples[i - 1].time, samples[i].time);
}

TEST(SpanLog, QueueOfADeviceHasSeparateTimes) {
  DeviceContext context({.kind = DeviceKind::emulated});
  SpanLog& log = context.spans();
  log.start();
  {
    const Span outer(log, "outer");
    const Span inner(log, "inner");
  }
  const auto records = log.stop();
  ASSERT_EQ(names_of(records.device), (std::vector<std::string>{"outer", "inner"}));
  const auto& [outer, inner] = std::pair(records.device[0], records.device[1]);
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_LE(inner.begin, inner.end);
  EXPECT_LE(inner.end, outer.end);
}

}  // namespace
}  // namespace hexad::device
