// Choice of the rank that is blamed for a hang. A table of the ranks' standings replaces the network.
#include "parallel/comm/inquiry.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace hexad::comm {
namespace {

using base::cat;
using Kind = Standing::Kind;
using Table = std::map<int, Standing>;  // ranks not in the table are silent

constexpr double limit = 10;

Standing waits_for(std::vector<int> missing) { return {Kind::waits, 9, std::move(missing), "operation 1 of group tp"}; }
Standing files(double quiet_seconds) { return {Kind::files, quiet_seconds, {}, "saving the checkpoint: f, 3 bytes"}; }
const Standing works{Kind::works, 12, {}, "its last operation ended"};

Inquiry::Finding find(int rank, std::vector<int> missing, const Table& table) {
  Inquiry inquiry(rank, {Kind::waits, limit, std::move(missing), "hang"}, table.at(rank), limit);
  for (int tick = 0; !inquiry.over(); ++tick) {
    EXPECT_LE(tick, 2 * Inquiry::patience);
    for (int r : inquiry.ranks_to_ask())
      if (table.contains(r)) inquiry.answer(r, table.at(r));
    inquiry.tick();
  }
  return inquiry.finding([](int r) { return cat("rank ", r); });
}

TEST(Inquiry, FollowsTheChainToTheSilentRank) {
  const auto finding = find(0, {1}, {{0, waits_for({1})}, {1, waits_for({3})}, {3, waits_for({2})}});
  EXPECT_EQ(finding.text,
            "hang; rank 1 waits in operation 1 of group tp; rank 3 waits in operation 1 of group tp; to blame: rank 2 "
            "does not answer: it is stopped, has ended or cannot be reached; expected an answer within a few seconds; "
            "check the process and the log of the rank, and the network to its host");
}

TEST(Inquiry, BlamesSilentRanksBeforeWorkingRanks) {
  const auto finding = find(0, {1, 2}, {{0, waits_for({1, 2})}, {1, works}});
  EXPECT_NE(finding.text.find("to blame: rank 2 does not answer"), std::string::npos) << finding.text;
  EXPECT_EQ(finding.text.find("rank 1"), std::string::npos) << finding.text;
}

TEST(Inquiry, BlamesTheRankAtTheEndOfTheChain) {
  const auto finding = find(0, {1}, {{0, waits_for({1})}, {1, waits_for({2})}, {2, works}});
  EXPECT_NE(
      finding.text.find("to blame: rank 2 waits for no other rank: it computes, or hangs in its own code; its last "
                        "operation ended; expected the rank to join the operation; check its log and the stack of "
                        "its process; if it computes, increase distributed.watchdog_seconds"),
      std::string::npos)
      << finding.text;
}

TEST(Inquiry, RankBusyWithItsOwnWorkBlamesItself) {
  const auto nobody_else = find(0, {}, {{0, works}});
  EXPECT_NE(nobody_else.text.find("to blame: rank 0 waits for no other rank"), std::string::npos) << nobody_else.text;
  // Rank 0's operation is in flight, but the thread of rank 0 does not wait for it. Rank 1 waits for rank 0.
  const auto both = find(0, {1}, {{0, works}, {1, waits_for({0})}});
  EXPECT_NE(both.text.find("to blame: rank 0 waits for no other rank"), std::string::npos) << both.text;
}

TEST(Inquiry, ActiveFileWorkOfABlamedRankIsNoHang) {
  const auto finding = find(0, {1, 3}, {{0, waits_for({1, 3})}, {1, waits_for({2})}, {2, files(4)}, {3, works}});
  EXPECT_TRUE(finding.moves);
  EXPECT_EQ(finding.quiet_seconds, 4);
}

TEST(Inquiry, StalledFileWorkIsBlamed) {
  const auto finding = find(0, {1, 2}, {{0, waits_for({1, 2})}, {1, files(limit)}, {2, files(1)}});
  EXPECT_FALSE(finding.moves);
  EXPECT_NE(
      finding.text.find("to blame: rank 1 has made no progress in its file work for 10 s: it is saving the "
                        "checkpoint: f, 3 bytes; expected progress within 10 s; check the storage of the file, or "
                        "increase distributed.watchdog_seconds"),
      std::string::npos)
      << finding.text;
}

TEST(Inquiry, BlamesNoSingleRankOfACycle) {
  const auto finding = find(0, {1}, {{0, waits_for({1})}, {1, waits_for({0})}});
  EXPECT_EQ(
      finding.text,
      "hang; rank 1 waits in operation 1 of group tp; to blame: no single rank, because they wait for each other; "
      "expected the same order of operations on all ranks; compare the operations that are named here");
}

TEST(Inquiry, BlamesAllWorkingRanksInThePlural) {
  const auto finding = find(0, {1, 2}, {{0, waits_for({1, 2})}, {1, works}, {2, works}});
  EXPECT_TRUE(
      finding.text.ends_with("; expected these ranks to join the operation; check their logs and the stacks of "
                             "their processes; if they compute, increase distributed.watchdog_seconds"))
      << finding.text;
}

TEST(Standing, ListsRanksWithTheirNoun) {
  EXPECT_EQ(list_of({3}), "rank 3");
  EXPECT_EQ(list_of({1, 2}), "ranks 1, 2");
  EXPECT_EQ(list_of({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0, 1, 2, 3, 4, 5, 6, 7, ... (9 in all)");
}

TEST(Standing, IsReadBackFromItsText) {
  for (const Standing& s : {waits_for({1, 2, 3}), files(2.5), works}) EXPECT_EQ(parse_standing(to_note(s)), s);
  EXPECT_THROW(parse_standing("what?"), base::Error);
}

}  // namespace
}  // namespace hexad::comm
