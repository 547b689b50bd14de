// Order in which ranks post receives and free sent tensors.
#include "parallel/pp/transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "framework/base/error.h"
#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {
namespace {

Schedule schedule_of(PipelineKind kind, int ranks, int micro_batches) {
  return make_schedule({.kind = kind, .split = {}}, ranks, micro_batches);
}

// Calls f(schedule, transfers) for every schedule and for its evaluation, with merged pairs and with separate pairs.
template <class F>
void for_all_transfers(F&& f) {
  for_all_schedules(5, 16, [&](const Schedule& training) {
    for (const Schedule& schedule : {training, forwards_of(training)})
      for (const bool merge : {false, true}) {
        SCOPED_TRACE(base::cat(merge ? "merged\n" : "", to_string(schedule)));
        f(schedule, transfers(schedule, merge));
      }
  });
}

// Returns the message that an action sends to another rank, if any.
std::optional<Message> sent(const Schedule& schedule, int rank, const Action& action) {
  const auto message = made(schedule.stages, rank, action);
  return message && receiver(schedule.stages, *message) != rank ? message : std::nullopt;
}

TEST(Transfers, EachReceiveIsPostedBeforeItsActionInTheOrderOfTheSends) {
  for_all_transfers([](const Schedule& s, const Transfers& transfers) {
    std::map<std::pair<int, int>, std::vector<Message>> sends, receives;  // by sender and receiver
    for (int rank = 0; rank < s.stages.ranks; ++rank) {
      std::set<Message> posted;
      for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
        const Action& action = s.ranks[rank][i];
        for (const Message& m : transfers.ranks[rank][i].receives) {
          EXPECT_TRUE(posted.insert(m).second);
          EXPECT_EQ(receiver(s.stages, m), rank);
          receives[{sender(s.stages, m), rank}].push_back(m);
        }
        const auto message = needed(s.stages, rank, action);
        if (message && sender(s.stages, *message) != rank) {
          EXPECT_TRUE(posted.contains(*message)) << to_string(action);
        }
        if (const auto made = sent(s, rank, action)) sends[{rank, receiver(s.stages, *made)}].push_back(*made);
      }
    }
    EXPECT_EQ(receives, sends);
  });
}

TEST(Transfers, ReceivesArePostedOneActionAhead) {
  const Transfers t = transfers(schedule_of(PipelineKind::one_f_one_b, 2, 3), false);  // rank 1: F0 B0 F1 B1 F2 B2
  const auto of_rank_1 = [&](size_t action) { return t.ranks[1][action].receives; };
  EXPECT_EQ(of_rank_1(0), (std::vector<Message>{{true, 1, 0}}));
  EXPECT_EQ(of_rank_1(1), (std::vector<Message>{{true, 1, 1}}));
  EXPECT_EQ(of_rank_1(2), std::vector<Message>{});
}

TEST(Transfers, GPipe1F1BAndZbH1FreeSentTensorsAtOnce) {
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zb_h1})
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int micro_batches = 1; micro_batches <= 14; ++micro_batches)
        EXPECT_TRUE(transfers(schedule_of(kind, ranks, micro_batches), false).at_once)
            << name_of(kind) << ", " << ranks << " ranks, " << micro_batches << " micro-batches";
}

// Runs the actions of one rank. The other ranks are as late as possible: they run only the actions on which the rank's
// inputs depend.
class LateRanks {
 public:
  explicit LateRanks(const Schedule& schedule) : schedule_(schedule), done_(schedule.stages.ranks) {}

  // Runs all actions on which action `i` of `rank` depends.
  void prepare(int rank, size_t i) {
    while (done_[rank] < i) run_next(rank);
    const auto message = needed(schedule_.stages, rank, schedule_.ranks[rank][i]);
    if (!message || sender(schedule_.stages, *message) == rank) return;
    const int from = sender(schedule_.stages, *message);
    const auto has_sent = [&] {
      const auto& actions = schedule_.ranks[from];
      return std::any_of(actions.begin(), actions.begin() + static_cast<std::ptrdiff_t>(done_[from]),
                         [&](const Action& a) { return made(schedule_.stages, from, a) == message; });
    };
    while (!has_sent()) run_next(from);
  }
  // Returns the number of actions of `rank` that have ended.
  size_t done(int rank) const { return done_[rank]; }

 private:
  void run_next(int rank) {
    prepare(rank, done_[rank]);
    ++done_[rank];
  }

  const Schedule& schedule_;
  std::vector<size_t> done_;
};

TEST(Transfers, TensorsFreedLatestAreHeldAsLongAsLateReceiversHoldThem) {
  for_all_schedules(5, 10, [](const Schedule& s) {
    SCOPED_TRACE(to_string(s));
    const Transfers t = transfers(s, false, Freeing::latest);
    std::map<Message, size_t> posted;  // number of the receiver's actions before it posts the receive
    for (int rank = 0; rank < s.stages.ranks; ++rank)
      for (size_t i = 0; i < s.ranks[rank].size(); ++i)
        for (const Message& m : t.ranks[rank][i].receives) posted[m] = i;
    for (int rank = 0; rank < s.stages.ranks; ++rank) {
      LateRanks late(s);
      std::set<Message> held, expected;
      for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
        late.prepare(rank, i);
        std::erase_if(expected, [&](const Message& m) { return late.done(receiver(s.stages, m)) > posted.at(m); });
        for (const Message& m : t.ranks[rank][i].frees) EXPECT_EQ(held.erase(m), 1u);
        EXPECT_EQ(held, expected) << "rank " << rank << " before " << to_string(s.ranks[rank][i]);
        if (const auto message = sent(s, rank, s.ranks[rank][i])) held.insert(*message), expected.insert(*message);
      }
    }
  });
}

TEST(SumsInFlight, AreThoseThatALateRankOfTheOtherStageLeavesUnfinished) {
  for_all_schedules(5, 10, [](const Schedule& s) {
    SCOPED_TRACE(to_string(s));
    const StageMap::Place first = s.stages.place(0), last = s.stages.place(s.stages.last());
    for (int rank = 0; rank < s.stages.ranks; ++rank) {
      const bool shares = first.rank != last.rank && (rank == first.rank || rank == last.rank);
      if (!shares) {
        EXPECT_EQ(sums_in_flight(s, false, rank), 0);
        continue;
      }
      const auto& [mine, other] = rank == first.rank ? std::pair(first, last) : std::pair(last, first);
      LateRanks late(s);
      int begun = 0, most = 0;
      for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
        late.prepare(rank, i);
        const Action& a = s.ranks[rank][i];
        if (!a.is_backward() || a.local_stage != mine.local_stage) continue;
        std::vector<int> finished(s.stages.stages_a_rank);  // by local stage of the other rank
        for (size_t k = 0; k < late.done(other.rank); ++k) {
          const Action& ended = s.ranks[other.rank][k];
          if (ended.kind == Action::Kind::backward || ended.kind == Action::Kind::backward_weight)
            ++finished[ended.local_stage];
        }
        most = std::max(most, ++begun - *std::ranges::min_element(finished));
      }
      EXPECT_EQ(sums_in_flight(s, false, rank), most) << "rank " << rank;
    }
  });
}

TEST(SumsInFlight, AreBoundedByTheNumberOfRanksUnder1F1B) {
  const Schedule schedule = schedule_of(PipelineKind::one_f_one_b, 4, 64);
  EXPECT_EQ(sums_in_flight(schedule, false, 0), 0) << "the last stage has begun each sum before the first stage";
  EXPECT_EQ(sums_in_flight(schedule, false, 3), 4);
}

TEST(Transfers, MemoryDeadlockIsNamed) {
  const auto verdict_of_freeing_at_once = [](PipelineKind kind, int micro_batches) -> std::string {
    const Schedule schedule = schedule_of(kind, 2, micro_batches);
    Transfers t = transfers(schedule, false);
    t.at_once = true;
    for (auto& of_rank : t.ranks)
      for (Transfers::Before& before : of_rank) before.frees.clear();
    try {
      check(schedule, t, false);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "executable";
  };
  const std::string never_ends = "[pp] the schedule never ends on devices, which reuse freed memory: ";
  const std::string expected = "; expected an order in which ranks do not wait for each other";
  EXPECT_EQ(verdict_of_freeing_at_once(PipelineKind::zb_v, 1), "executable");
  EXPECT_EQ(verdict_of_freeing_at_once(PipelineKind::zb_v, 4),
            never_ends + "rank 0 waits at W1.1, rank 1 waits at W0.0" + expected);
  EXPECT_EQ(verdict_of_freeing_at_once(PipelineKind::dualpipe_v, 3),
            never_ends + "rank 0 waits at W1.0, rank 1 waits at F0.2" + expected);
  EXPECT_EQ(verdict_of_freeing_at_once(PipelineKind::interleaved, 4),
            never_ends + "rank 0 waits at F0.3, rank 1 waits at F0.2" + expected);
}

TEST(Transfers, KeptTensorsAreBoundedByTheNumberOfRanks) {
  for_all_transfers([](const Schedule& s, const Transfers& transfers) {
    for (int rank = 0; rank < s.stages.ranks; ++rank) {
      std::set<Message> kept;
      for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
        for (const Message& m : transfers.ranks[rank][i].frees) EXPECT_EQ(kept.erase(m), 1u);
        const auto message = sent(s, rank, s.ranks[rank][i]);
        if (message && !transfers.at_once) kept.insert(*message);
        EXPECT_LT(static_cast<int>(kept.size()), 2 * s.stages.ranks);
      }
    }
  });
}

// Runs the actions of all ranks. Each action waits until all tensors freed before it have been received, as if the
// action reused all of their memory.
TEST(Transfers, SchedulesThatKeepSentTensorsEndAlthoughReuseWaitsForTheReceiver) {
  for_all_transfers([](const Schedule& s, const Transfers& transfers) {
    if (transfers.at_once) return;
    std::vector<size_t> done(s.stages.ranks);
    std::set<Message> sends;
    std::map<Message, size_t> posted;  // number of the receiver's actions before it posts the receive
    for (int rank = 0; rank < s.stages.ranks; ++rank)
      for (size_t i = 0; i < s.ranks[rank].size(); ++i)
        for (const Message& m : transfers.ranks[rank][i].receives) posted[m] = i;
    const auto has_left = [&](const Message& m) {
      return sends.contains(m) && done[receiver(s.stages, m)] >= posted.at(m);
    };
    bool goes_on = true;
    const auto act = [&](int rank) {
      const size_t i = done[rank];
      if (i == s.ranks[rank].size()) return;
      const Action& action = s.ranks[rank][i];
      const auto message = needed(s.stages, rank, action);
      if (message && sender(s.stages, *message) != rank && !has_left(*message)) return;
      if (!std::ranges::all_of(transfers.ranks[rank][i].frees, has_left)) return;
      if (const auto made = sent(s, rank, action)) sends.insert(*made);
      ++done[rank];
      goes_on = true;
    };
    while (std::exchange(goes_on, false))
      for (int rank = 0; rank < s.stages.ranks; ++rank) act(rank);
    for (int rank = 0; rank < s.stages.ranks; ++rank) EXPECT_EQ(done[rank], s.ranks[rank].size()) << "rank " << rank;
  });
}

}  // namespace
}  // namespace hexad::pp
