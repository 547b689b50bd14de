// Order in which the steps of a pass are issued.
#include "layers/moe/schedule/issue_order.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/moe/paper_letters.h"

namespace hexad::moe {
namespace {

using enum Stage;

std::string text(const IssueOrder& order, size_t chunks) { return tests::in_letters(to_string(order.steps(chunks))); }

TEST(IssueOrder, AlternatingSendsOneChunkAheadAndReturnsInTurn) {
  EXPECT_EQ(text(alternating_order(), 1), "S0 C0 R0 W0");
  EXPECT_EQ(text(alternating_order(), 2), "S0 S1 C0 R0 W0 C1 R1 W1");
  EXPECT_EQ(text(alternating_order(), 4), "S0 S1 C0 R0 W0 S2 C1 R1 W1 S3 C2 R2 W2 C3 R3 W3");
}

TEST(IssueOrder, BuiltInOrdersMatchTheirDocumentation) {
  const auto all = built_in_orders();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "alternating");
  EXPECT_EQ(text(all[0], 3), "S0 S1 C0 R0 W0 S2 C1 R1 W1 C2 R2 W2");
  EXPECT_EQ(all[1].name, "weights_last");
  EXPECT_EQ(text(all[1], 3), "S0 S1 C0 R0 S2 C1 R1 C2 R2 W0 W1 W2");
  EXPECT_EQ(all[2].name, "returns_last");
  EXPECT_EQ(text(all[2], 3), "S0 S1 S2 C0 W0 C1 W1 C2 W2 R0 R1 R2");
}

TEST(IssueOrder, BuiltInOrdersAreLegalForOneToNineChunks) {
  for (const IssueOrder& order : built_in_orders())
    for (size_t chunks = 1; chunks <= 9; ++chunks) {
      // At most two chunks may be in flight with two buffers, but returns_last puts all chunks in flight.
      const bool fits = order.name != "returns_last" || chunks <= 2;
      EXPECT_EQ(issue_order_problem(order.steps(chunks), chunks, false), "") << order.name;
      EXPECT_EQ(issue_order_problem(order.steps(chunks), chunks, true).empty(), fits) << order.name << " " << chunks;
    }
}

TEST(IssueOrder, ProblemNamesTheIllegalStep) {
  using Steps = std::vector<IssueStep>;
  const auto why = [](const Steps& steps, size_t chunks = 1) { return issue_order_problem(steps, chunks, false); };
  const Steps right{{dispatch, 0}, {compute, 0}, {combine, 0}, {weight_gradients, 0}};
  EXPECT_EQ(why(right), "");
  EXPECT_EQ(why({}), "step dispatch[0] is missing");
  EXPECT_EQ(why({{dispatch, 0}, {compute, 0}, {combine, 0}}), "step weight_gradients[0] is missing");
  EXPECT_EQ(why(right, 2), "step dispatch[1] is missing");
  EXPECT_EQ(why({{compute, 0}}), "step 1 is experts[0], but dispatch[0] must come before it");
  EXPECT_EQ(why({{dispatch, 0}, {combine, 0}}), "step 2 is combine[0], but experts[0] must come before it");
  EXPECT_EQ(why({{dispatch, 0}, {weight_gradients, 0}}),
            "step 2 is weight_gradients[0], but experts[0] must come before it");
  EXPECT_EQ(why({{dispatch, 0}, {dispatch, 0}}), "step 2 is dispatch[0], but an earlier step is the same");
  EXPECT_EQ(why({{dispatch, 1}}), "step 1 is dispatch[1], but the number of chunks is 1, and the first chunk is 0");
  // Every order must add weight gradients in the order of the chunks, so that sums are bitwise identical.
  EXPECT_EQ(why({{dispatch, 1}, {compute, 1}, {weight_gradients, 1}}, 2),
            "step 3 is weight_gradients[1], but weight_gradients[0] must come before it");
}

TEST(IssueOrder, BuiltInOrdersComputeAndReturnChunksInTurn) {
  for (const IssueOrder& order : built_in_orders()) EXPECT_EQ(in_turn_problem(order.steps(5)), "") << order.name;
  const std::vector<IssueStep> other{{dispatch, 0}, {dispatch, 1}, {compute, 1}, {compute, 0}};
  EXPECT_EQ(in_turn_problem(other),
            "step 3 is experts[1], but experts[0] must come before it, because the chunks share rows of tokens "
            "(schedule.moe.rows: token with chunk_by: experts)");
}

TEST(IssueOrder, ErrorNamesTheIllegalOrder) {
  const IssueOrder forgetful{"forgetful", [](size_t) { return std::vector<IssueStep>{{dispatch, 0}}; }};
  try {
    checked_steps(forgetful, 1, false);
    FAIL() << "an order without computation was accepted; expected an error that names step experts[0]";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    EXPECT_STREQ(e.what(), "schedule.moe.order (forgetful), for 1 chunk: step experts[0] is missing");
  }
}

}  // namespace
}  // namespace hexad::moe
