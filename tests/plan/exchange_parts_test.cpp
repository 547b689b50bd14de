// Parts of a forward pass before and after its experts.
#include "tools/plan/exchange_parts.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace hexad::plan {
namespace {

using schedule::Lane;
using schedule::TaskKind;
using schedule::Timeline;

Timeline::Span span(std::string name, Lane lane, TaskKind kind, double begin, double end) {
  Timeline::Span s;
  s.task.name = std::move(name), s.task.lane = lane, s.task.kind = kind;
  s.begin = begin, s.end = end;
  return s;
}

// The pass has two chunks. The first experts begin while the second chunk is still being sent. The last experts end
// while the results of the first chunk are still being returned.
TEST(ExchangeParts, AreBeforeTheFirstAndAfterTheLastExperts) {
  const Timeline forward{{span("dispatch.a2a[0]", Lane::inter, TaskKind::all_to_all, 0, 2),
                          span("dispatch.a2a[1]", Lane::inter, TaskKind::all_to_all, 2, 3.5),
                          span("experts[0]", Lane::compute, TaskKind::compute, 2.5, 5),
                          span("experts[1]", Lane::compute, TaskKind::compute, 5, 8),
                          span("combine.a2a[0]", Lane::inter, TaskKind::all_to_all, 5, 8.5),
                          span("combine.a2a[1]", Lane::inter, TaskKind::all_to_all, 8.5, 9.5),
                          span("combine.all_gather", Lane::intra, TaskKind::all_gather, 9.5, 12)}};
  const ExchangeParts parts = exchange_parts(forward);
  ASSERT_EQ(parts.dispatch.spans.size(), 2u);
  EXPECT_EQ(parts.dispatch.spans[1].task.name, "dispatch.a2a[1]");
  EXPECT_EQ(parts.dispatch.total(), 2.5);
  EXPECT_EQ(parts.dispatch.busy(Lane::inter), 2.5);
  ASSERT_EQ(parts.combine.spans.size(), 3u);
  EXPECT_EQ(parts.combine.spans[0].begin, 0);
  EXPECT_EQ(parts.combine.spans[0].end, 0.5);
  EXPECT_EQ(parts.combine.busy(Lane::inter), 1.5);
  EXPECT_EQ(parts.combine.total(), 4);
}

TEST(ExchangeParts, NeedExperts) {
  const Timeline forward{{span("dispatch.a2a", Lane::inter, TaskKind::all_to_all, 0, 2)}};
  EXPECT_THROW(exchange_parts(forward), std::logic_error);
}

}  // namespace
}  // namespace hexad::plan
