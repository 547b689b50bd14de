// Wrong numbers from another rank cause an error that names the sender, never a crash.
#include "parallel/ep/received.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/routing_plan.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"
#include "tests/verify/sabotage.h"

namespace hexad::tests {

using device::Device;

namespace {

using comm::Operation;
using comm::ProcessGroup;
using ep::RowOf;
using Kind = Operation::Kind;

// Returns a fault of operations of this kind and dtype. The fault sets element `at` of the data that rank 0 receives to
// `value`.
Wrong wrong_number(Kind kind, Dtype dtype, int64_t at, int64_t value) {
  return [=](const ProcessGroup& right, const Operation& op, device::Stream& stream) {
    std::optional<device::Event> done;
    if (right.rank() != 0 || op.kind != kind || op.out.dtype() != dtype) return done;
    if (kind == Kind::all_gather)
      right.all_gather(op.out, op.in, stream).wait();
    else
      right.all_to_all(op.out, op.in, op.splits, stream).wait();
    if (dtype == Dtype::i64) op.out.data<int64_t>()[at] = value;
    if (dtype == Dtype::i32) op.out.data<int32_t>()[at] = static_cast<int32_t>(value);
    done = stream.record();
    return done;
  };
}

// Returns the error of rank 0, which receives the wrong number `value` at element `at`.
std::string told(Kind kind, Dtype dtype, int64_t at, int64_t value, RowOf row_of) {
  return message_of(ExitCode::communication, [&] {
    comm::with_ranks(2, [&](const ProcessGroup& world) {
      Lab lab;
      const comm::SelfGroup self;
      const auto wrong = wrong_group(world, wrong_number(kind, dtype, at, value));
      // Rank 0 has experts 0 and 1. The three tokens of every rank choose experts 0 and 1, 2 and 3, 0 and 2.
      const Tensor ids = Tensor::from<int32_t>(std::vector<int32_t>{0, 1, 2, 3, 0, 2}, {3, 2}, lab.context);
      plan_for_ids(ids, 4, {wrong.get(), &self, wrong.get()}, {.row_of = row_of}, lab.stream());
    });
  });
}

TEST(Received, CountsAreCheckedBeforeTheyAreUsed) {
  const auto count = [](int64_t at, int64_t value) {
    return told(Kind::all_gather, Dtype::i64, at, value, RowOf::slot);
  };
  // Rank 1's message begins at element 5: counts 2 1 2 1, of 6 slots.
  EXPECT_EQ(count(5, -7),
            "routing: rank 1 of group world sent the count -7 of slots for expert 0 in chunk 0; expected 0 .. 6, "
            "because 0 of its 6 slots are counted already");
  EXPECT_EQ(
      count(6, int64_t{1} << 62),
      "routing: rank 1 of group world sent the count 4611686018427387904 of slots for expert 1 in chunk 0; expected "
      "0 .. 4, because 2 of its 6 slots are counted already");
  EXPECT_EQ(count(5, 1),
            "routing: rank 1 of group world sent counts of slots by expert that add up to 5; expected 6, its "
            "number of slots");
}

TEST(Received, TokenRowCountsMustFitTheirSlots) {
  // Rank 1's message begins at element 7: counts 2 1 2 1, rows 2 2, of 6 slots.
  EXPECT_EQ(told(Kind::all_gather, Dtype::i64, 11, 4, RowOf::token),
            "routing: rank 1 of group world sent the count 4 of rows for rank 0 in chunk 0; expected 2 .. 3 for its 3 "
            "slots");
}

TEST(Received, ExpertsOfRowsAreCheckedBeforeTheyAreUsed) {
  const auto expert = [](int64_t at, int64_t value) {
    return told(Kind::all_to_all, Dtype::i32, at, value, RowOf::token);
  };
  // Each rank sends two rows to rank 0, one with two experts and one with a single expert: 0 1, 0 -1.
  EXPECT_EQ(expert(5, 1 << 30),
            "routing: rank 1 of group world sent local expert 1073741824 for row 0; expected 0 .. 1, or -1 after its "
            "last expert");
  EXPECT_EQ(
      expert(5, -9),
      "routing: rank 1 of group world sent local expert -9 for row 0; expected 0 .. 1, or -1 after its last expert");
  EXPECT_EQ(expert(6, -1), "routing: rank 1 of group world sent no expert for row 1; expected at least one");
  EXPECT_EQ(expert(7, 0),
            "routing: rank 1 of group world sent local expert 0 for row 1, one row too many; expected 2 rows, as in "
            "its counts");
  EXPECT_EQ(expert(5, -1),
            "routing: rank 1 of group world sent local expert 1 for 0 rows; expected 1 row, as in its counts");
}

TEST(Received, LoadsOfExpertsAreCheckedBeforeTheyAreUsed) {
  const auto load = [](int64_t at, int64_t value) {
    return message_of(ExitCode::communication, [&] {
      comm::with_ranks(2, [&](const ProcessGroup& world) {
        Lab lab;
        const auto wrong = wrong_group(world, wrong_number(Kind::all_gather, Dtype::i64, at, value));
        const Tensor ids = Tensor::from<int32_t>(std::vector<int32_t>{0, 1, 2, 3}, {2, 2}, Device(lab.context).host());
        ep::agree_on_hot_experts(ids, 4, 2, {1}, *wrong);
      });
    });
  };
  // Rank 1's loads begin at element 4.
  EXPECT_EQ(load(5, -7), "routing: rank 1 of group world sent the load -7 of expert 1; expected 0 .. 1099511627776");
  EXPECT_EQ(
      load(4, int64_t{1} << 62),
      "routing: rank 1 of group world sent the load 4611686018427387904 of expert 0; expected 0 .. 1099511627776");
}

// A token chooses experts 0 and 1 of rank 0, which are in different chunks. Its row is sent in the first chunk and
// returns in the second chunk.
TEST(Received, CountsOfJoinedRowsMustAgree) {
  const comm::SelfGroup self;
  const ep::CountsMessage counts{2, 4, 2, 2, true};
  const std::vector<int64_t> right{1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 2};
  ASSERT_EQ(counts.size(), std::ssize(right));
  EXPECT_NO_THROW(counts.check(right, 0, self));
  const auto with = [&](size_t at, int64_t value) {
    std::vector<int64_t> wrong = right;
    wrong[at] = value;
    return message_of(ExitCode::communication, [&] { counts.check(wrong, 0, self); });
  };
  const std::string sender = "routing: rank 0 of group " + self.name() + " sent ";
  EXPECT_EQ(with(8, 2), sender + "the count 2 of rows for rank 0 in chunk 0; expected 0 .. 1 for its 1 slot");
  EXPECT_EQ(with(15, 1), sender + "the count 1 of rows from rank 1 in chunk 1; expected 0 .. 0 for its 0 slots");
  EXPECT_EQ(with(12, 1), sender +
                             "counts of 1 row for rank 0 and of 2 rows for the return; expected equal counts of 1 "
                             ".. 2 rows, for 2 slots");
}

TEST(Received, JoinedRowsMustBeThoseThatWereCounted) {
  const comm::SelfGroup self;
  const std::vector<int64_t> listed{1, 0}, counted{0, 1};
  EXPECT_NO_THROW(ep::check_joined_rows(listed, listed, false, 0, self));
  EXPECT_EQ(message_of(ExitCode::communication, [&] { ep::check_joined_rows(listed, counted, true, 0, self); }),
            "routing: rank 0 of group " + self.name() +
                " sent experts of 1 row returned in chunk 0; expected 0 rows, as in its counts");
}

TEST(Received, GatheredExpertsMustExist) {
  Lab lab;
  const comm::SelfGroup self;
  const Tensor ids = Tensor::from<int32_t>(std::vector<int32_t>{0, 3, 4, -1}, {2, 2}, Device(lab.context).host());
  EXPECT_NO_THROW(ep::check_gathered_ids(ids, 5, self));
  EXPECT_EQ(message_of(ExitCode::communication, [&] { ep::check_gathered_ids(ids, 4, self); }),
            "routing: rank 0 of group " + self.name() +
                " sent expert 4 for slot 0 of its row 1; expected 0 .. 3, or -1 for a dropped slot");
}

}  // namespace
}  // namespace hexad::tests
