// Order in which slots are sent, as rows of slots or as rows of tokens.
#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"
#include "tests/ep/random_routes.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
namespace {

TEST(SlotOrder, ChunksOfTokensAreAsEqualAsPossibleAndOrdered) {
  Lab lab;
  const ep::SlotOrder order =
      ep::order_slots(ids_of(lab, {1, 0, 1, 0, 1}, 1), {2, 1, {Chunking::By::tokens, 2}}, 0, lab.stream());
  EXPECT_EQ(order.counts, (std::vector<int64_t>{1, 2, 1, 1}));  // chunk 0 has tokens 0 to 2, chunk 1 has tokens 3 and 4
  EXPECT_EQ(order.tokens.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 2, 3, 4}));
  EXPECT_EQ(order.rows.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 2, 3, 4}));
}

// There are two ranks with two experts each.
TEST(SlotOrder, SendsATokenRowToEachRankWithAnyOfItsExperts) {
  Lab lab;
  const Tensor ids = ids_of(lab, {0, 1, 3, 2, -1, 3, -1, -1, -1}, 3);
  const ep::SlotOrder order = ep::order_slots(ids, {4, 2, {}, RowOf::token}, 0, lab.stream());
  EXPECT_EQ(order.counts, (std::vector<int64_t>{1, 1, 1, 2}));
  EXPECT_EQ(order.rows_to, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(order.tokens.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(order.rows.to_vector<int64_t>(), (std::vector<int64_t>{0, -1, 1, 2, -1, -1, -1, -1, -1}));
  EXPECT_EQ(order.row_slots.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, -1, 3, 5}));
  EXPECT_EQ(order.row_experts.to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 1, -1, 0, 1}));
}

// Three of the four slots are kept. An expert's share of the capacity is 1.5 x 4 slots / 2 experts = 3 rows.
TEST(SlotOrder, FillsEachExpertUpToItsShareOfTheCapacity) {
  Lab lab;
  const Tensor ids = ids_of(lab, {1, 1, -1, 1}, 1);
  const ep::Ordering ordering{.experts = 2, .ranks = 2, .capacity = 1.5};
  const ep::SlotOrder order = ep::order_slots(ids, ordering, 0, lab.stream());
  EXPECT_EQ(order.counts, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(order.rows_to, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(order.tokens.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 0, 1, 3}));
  EXPECT_EQ(order.rows.to_vector<int64_t>(), (std::vector<int64_t>{3, 4, -1, 5}));
  EXPECT_EQ(order.row_slots.to_vector<int64_t>(), (std::vector<int64_t>{-1, -1, -1, 0, 1, 3}));
  const ep::SlotOrder above = ep::order_slots(ids, {.experts = 2, .ranks = 2, .capacity = 0.5}, 0, lab.stream());
  EXPECT_EQ(above.counts, (std::vector<int64_t>{1, 3})) << "order_slots() keeps the slots above the capacity";
}

// Experts 0 and 2 are in the first chunk, and experts 1 and 3 are in the second chunk.
TEST(SlotOrder, SendsATokenRowInItsFirstExpertGroupAndReturnsItInTheLast) {
  Lab lab;
  const Tensor ids = ids_of(lab, {0, 1, 3, 2, -1, -1}, 3);
  const ep::SlotOrder order = ep::order_slots(ids, {4, 2, {Chunking::By::experts, 2}, RowOf::token}, 0, lab.stream());
  EXPECT_TRUE(order.joined);
  EXPECT_EQ(order.counts, (std::vector<int64_t>{1, 0, 1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(order.rows_to, (std::vector<int64_t>{1, 1, 0, 1}));
  EXPECT_EQ(order.rows_from(), (std::vector<int64_t>{0, 1, 1, 1}));
  // Rows by the chunk in which they return: token 1 to rank 1, token 0 to rank 0, token 0 to rank 1.
  EXPECT_EQ(order.tokens.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(order.rows.to_vector<int64_t>(), (std::vector<int64_t>{1, -1, 2, 0, -1, -1}));
  EXPECT_EQ(order.row_slots.to_vector<int64_t>(), (std::vector<int64_t>{3, -1, 0, 1, 2, -1}));
  EXPECT_EQ(order.sent, (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(order.by_rank, (std::vector<int64_t>{1, 2, 0}));
}

TEST(SlotOrder, SendsATokenRowOnceForEachChunkOfPeers) {
  Lab lab;
  const Tensor ids = ids_of(lab, {0, 1, 3}, 3);
  const ep::SlotOrder order = ep::order_slots(ids, {4, 2, {Chunking::By::peers, 2}, RowOf::token}, 0, lab.stream());
  EXPECT_FALSE(order.joined);
  EXPECT_EQ(order.rows_to, (std::vector<int64_t>{1, 0, 0, 1}));
  EXPECT_EQ(order.rows_from(), order.rows_to);
  EXPECT_EQ(order.rows.to_vector<int64_t>(), (std::vector<int64_t>{0, -1, 1}));
}

TEST(SlotOrder, OrderForSeveralRanksEqualsTheOrderOfEachRank) {
  Lab lab;
  const Tensor ids = random_ids(lab, 0, 8, 2, 4);
  for (RowOf row_of : {RowOf::slot, RowOf::token})
    for (const Chunking chunking : {Chunking{}, {Chunking::By::tokens, 3}, {Chunking::By::peers, 2}}) {
      const std::vector<int> of{1, 0};
      const ep::Ordering ordering{4, 2, chunking, row_of};
      const std::vector<ep::SlotOrder> both = ep::order_slots(ids, ordering, of, lab.stream());
      for (size_t q = 0; q < 2; ++q) {
        const auto begin = static_cast<int64_t>(4 * q);
        const ep::SlotOrder alone = ep::order_slots(ids.slice(0, begin, begin + 4), ordering, of[q], lab.stream());
        EXPECT_EQ(both[q].counts, alone.counts);
        EXPECT_EQ(both[q].rows_to, alone.rows_to);
        EXPECT_EQ(both[q].tokens.to_vector<int64_t>(), alone.tokens.to_vector<int64_t>());
        EXPECT_EQ(both[q].rows.to_vector<int64_t>(), alone.rows.to_vector<int64_t>());
        EXPECT_EQ(both[q].row_slots.defined(), row_of == RowOf::token);
        if (row_of == RowOf::token) {
          EXPECT_EQ(both[q].row_slots.to_vector<int64_t>(), alone.row_slots.to_vector<int64_t>());
        }
      }
    }
}

TEST(SlotOrder, NamesTheSenderOfAnUnknownExpert) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Lab lab;
    const Tensor ids = ids_of(lab, {0, 1, 2, 7}, 1);  // the last id is the second id of rank 1
    for (RowOf row_of : {RowOf::slot, RowOf::token}) {
      const auto order = [&] { ep::order_slots(ids, {4, 2, {}, row_of, &world}, 0, lab.stream()); };
      EXPECT_EQ(message_of(ExitCode::communication, order),
                "routing: rank 1 of group " + world.name() +
                    " sent expert 7 for slot 0 of its row 1; expected 0 .. 3, or -1 for a dropped slot");
    }
  });
}

TEST(SlotOrder, RefusesTokenRowsWithARepeatedExpert) {
  Lab lab;
  const auto refused = [&](const std::vector<int32_t>& ids, int64_t top_k) -> std::string {
    try {
      ep::order_slots(ids_of(lab, ids, top_k), {4, 2, {}, RowOf::token}, 0, lab.stream());
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refused({0, 0, 1}, 3), "[ep] token 0 names expert 0 twice, expected different experts");
  EXPECT_EQ(refused({0, 1, 3, 3}, 2), "[ep] token 1 names expert 3 twice, expected different experts")
      << "a rank has as many experts as the token has slots";
  EXPECT_EQ(refused({0, 2, -1, -1}, 2), "nothing");
}

TEST(SlotOrder, RefusesSlotRowsWithARepeatedExpert) {
  Lab lab;
  const auto refused = [&](const std::vector<int32_t>& ids, double capacity) -> std::string {
    try {
      ep::order_slots(ids_of(lab, ids, 2), {.experts = 4, .ranks = 2, .capacity = capacity}, 0, lab.stream());
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing";
  };
  for (const double capacity : {0.0, 4.0}) {
    if (capacity == 0 && !lab.context.on_host()) continue;  // the host does not read the ids
    EXPECT_EQ(refused({0, 1, 3, 3}, capacity), "[ep] token 1 names expert 3 twice, expected different experts");
    EXPECT_EQ(refused({0, 1, 0, -1, -1, -1}, capacity), "nothing");
  }
}

TEST(SlotOrder, RefusesIllegalNumbersOfChunks) {
  Lab lab;
  const Tensor ids = ids_of(lab, {0}, 1);
  EXPECT_THROW(ep::order_slots(ids, {4, 2, {Chunking::By::peers, 3}}, 0, lab.stream()), std::logic_error);
  EXPECT_THROW(ep::order_slots(ids, {4, 2, {Chunking::By::experts, 3}}, 0, lab.stream()), std::logic_error);
  EXPECT_THROW(ep::order_slots(ids, {4, 2, {Chunking::By::tokens, 0}}, 0, lab.stream()), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
