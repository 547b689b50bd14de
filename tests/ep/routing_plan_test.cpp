// Routing plan, and delivery of its rows in both directions.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "framework/base/ordinal.h"
#include "framework/base/philox.h"
#include "framework/device/meta/meta_run.h"
#include "parallel/comm/imagined_group.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/routing_plan.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
namespace {

using ep::Chunking;
using ep::EspExchange;
using ep::RoutingPlan;
using ep::RowOf;

// Returns the plan for `world` as the ep group and etp groups of one rank.
RoutingPlan plan_over(const comm::ProcessGroup& world, const Tensor& ids, int64_t experts,
                      const ep::PlanOptions& options = {}) {
  static const comm::SelfGroup self;
  return plan_for_ids(ids, experts, {&world, &self, &world}, options, ids.device().context().compute());
}

Tensor ids_of(Lab& lab, const std::vector<int32_t>& ids, int64_t top_k) {
  return Tensor::from<int32_t>(ids, {static_cast<int64_t>(ids.size()) / top_k, top_k}, lab.context);
}

// Returns the random choices of `tokens` tokens: distinct experts, on average one slot in five dropped, different on
// every rank.
Tensor random_ids(Lab& lab, int rank, int64_t tokens, int64_t top_k, int64_t experts) {
  const Philox random(1, Purpose::route, cat("rank ", rank));
  std::vector<int32_t> ids;
  uint64_t n = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    std::set<int32_t> chosen;
    while (static_cast<int64_t>(chosen.size()) < top_k)
      chosen.insert(static_cast<int32_t>(random.below(n++, static_cast<uint64_t>(experts))));
    for (int32_t e : chosen) ids.push_back(random.below(n++, 5) == 0 ? -1 : e);
  }
  return ids_of(lab, ids, top_k);
}

TEST(RoutingPlan, SortsRowsByExpertThenToken) {
  Lab lab;
  const comm::SelfGroup self;
  // Token 0 chose experts 2 and 0, token 1 lost one slot, token 2 chose 0 and 2.
  const RoutingPlan plan = plan_over(self, ids_of(lab, {2, 0, -1, 1, 0, 2}, 2), 3);
  EXPECT_EQ(plan.indices.wire_tokens.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 1, 0, 2}));
  EXPECT_EQ(plan.indices.rows.to_vector<int64_t>(), (std::vector<int64_t>{3, 0, -1, 2, 1, 4}));
  ASSERT_EQ(plan.counts.chunks.size(), 1u);
  EXPECT_EQ(plan.counts.chunks[0].offsets, (std::vector<int64_t>{0, 2, 3, 5}));
  EXPECT_EQ(plan.counts.chunks[0].splits.send, (std::vector<int64_t>{5}));
  EXPECT_EQ(plan.counts.chunks[0].splits.receive, (std::vector<int64_t>{5}));
}

TEST(RoutingPlan, IsEmptyWithoutTokensOrWithOnlyDroppedSlots) {
  Lab lab;
  const comm::SelfGroup self;
  for (const auto& ids : {std::vector<int32_t>{}, std::vector<int32_t>{-1, -1}}) {
    const RoutingPlan plan = plan_over(self, ids_of(lab, ids, 2), 3);
    EXPECT_EQ(plan.counts.slots(), 0);
    EXPECT_EQ(plan.counts.rows_received(), 0);
    EXPECT_EQ(plan.counts.chunks[0].offsets, (std::vector<int64_t>{0, 0, 0, 0}));
  }
}

TEST(RoutingPlan, R8_RefusesExpertsOutOfRange) {
  Lab lab;
  const comm::SelfGroup self;
  const auto refused = [&](const std::vector<int32_t>& ids) -> std::string {
    try {
      plan_over(self, ids_of(lab, ids, 2), 3);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refused({0, 3}), "[ep] slot 1 names expert 3, expected at least -1 and less than 3");
  EXPECT_EQ(refused({0, -2}), "[ep] slot 1 names expert -2, expected at least -1 and less than 3");
}

TEST(RoutingPlan, RefusesIndivisibleNumbersOfExperts) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Lab lab;
    EXPECT_THROW(plan_over(world, ids_of(lab, {0}, 1), 3), std::logic_error);
  });
}

TEST(RoutingPlan, ReceiveSplitsEqualTheSendSplitsOfOtherRanks) {
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const RoutingPlan plan = plan_over(world, random_ids(lab, world.rank(), 9, 2, 8), 8);
    const auto sent = world.all_gather_values(plan.counts.chunks[0].splits.send, lab.context);
    for (int r = 0; r < 4; ++r) EXPECT_EQ(plan.counts.chunks[0].splits.receive[r], sent[4 * r + world.rank()]);
    EXPECT_EQ(plan.counts.rows_received(), plan.counts.rows_computed());
  });
}

// Returns rows [S, 3] that contain their expert, source rank and slot.
Tensor naming_rows(Lab& lab, const RoutingPlan& plan, const Tensor& ids, int rank) {
  const std::vector<int64_t> rows = plan.indices.rows.to_vector<int64_t>();
  const std::vector<int32_t> experts = ids.to_vector<int32_t>();
  std::vector<double> names(3 * plan.counts.slots());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    double* r = names.data() + 3 * rows[i];
    r[0] = experts[i], r[1] = rank, r[2] = static_cast<double>(i);
  }
  return lab.values(names, {plan.counts.slots(), 3});
}

// Expects rows grouped by expert, and within each expert sorted by source rank and slot.
void expect_grouped(const Tensor& grouped, const std::vector<int64_t>& offsets, int64_t first_expert) {
  const std::vector<double> rows = grouped.to_vector<double>();
  for (size_t e = 0; e + 1 < offsets.size(); ++e)
    for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
      const double* row = rows.data() + 3 * r;
      EXPECT_EQ(row[0], static_cast<double>(first_expert) + static_cast<double>(e));
      const double* before = row - 3;
      if (r > offsets[e]) {
        EXPECT_LT(std::pair(before[1], before[2]), std::pair(row[1], row[2])) << "wrong order of rows in expert " << e;
      }
    }
}

Tensor placed(Lab& lab, const Tensor& rows, const Tensor& place, const Tensor& into) {
  const auto& k = kernels::kernels(rows.device());
  if (!place.defined()) {
    if (into.defined()) k.pointwise.copy(lab.stream(), into, rows);
    return rows;
  }
  const Tensor out = into.defined() ? into : Tensor::like(rows);
  k.permute.scatter(lab.stream(), out, rows, place);
  return out;
}

struct Way {
  Chunking::By by;
  int chunks;
  bool merged;
};

std::string name_of(const Way& w) {
  constexpr std::string_view names[] = {"Tokens", "Peers", "Experts"};
  return cat(names[base::ordinal(w.by)], w.chunks, w.merged ? "Merged" : "");
}

class Exchange : public testing::TestWithParam<Way> {};

TEST_P(Exchange, BringsEveryRowToItsExpertAndBackToItsSlot) {
  constexpr int64_t tokens = 9, top_k = 2, experts = 8;
  for (int ranks : {1, 2, 4})
    comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
      Lab lab;
      const int64_t count = world.rank() == 1 ? 0 : tokens;  // one rank has no token, but makes the same calls
      const Tensor ids = random_ids(lab, world.rank(), count, top_k, experts);
      const Way way = GetParam();
      // There are at most as many chunks of experts as local experts, and at most as many chunks of peers as ranks.
      const int most = way.by == Chunking::By::tokens    ? way.chunks
                       : way.by == Chunking::By::experts ? static_cast<int>(experts) / ranks
                                                         : ranks;
      const ep::PlanOptions options{.chunking = {way.by, std::min(way.chunks, most)}, .merged = way.merged};
      const RoutingPlan plan = plan_over(world, ids, experts, options);
      const Tensor rows = naming_rows(lab, plan, ids, world.rank());
      const Tensor back = Tensor::like(rows);
      const Tensor together = Tensor::empty({plan.counts.rows_computed(), 3}, Dtype::f64, lab.context);
      for (size_t c = 0; c < plan.counts.chunks.size(); ++c) {
        const ep::ChunkCounts& chunk = plan.counts.chunks[c];
        const ep::ChunkIndices& indices = plan.indices.chunks[c];
        auto there = ep::send_to_experts(chunk, rows.slice(0, chunk.wire_begin, chunk.wire_end), world, lab.stream());
        there.arrived.wait();
        const Tensor grouped = placed(lab, there.data, indices.place, way.merged ? together : Tensor{});
        if (!way.merged) expect_grouped(grouped, chunk.offsets, world.rank() * experts / ranks);
        ep::send_to_tokens(chunk, there.data, world, lab.stream(), back.slice(0, chunk.slots_begin, chunk.slots_end))
            .arrived.wait();
      }
      if (way.merged) expect_grouped(together, plan.counts.chunks.front().offsets, world.rank() * experts / ranks);
      expect_bitwise(rows, back, Zeros::expected);
    });
}

INSTANTIATE_TEST_SUITE_P(, Exchange,
                         testing::Values(Way{Chunking::By::tokens, 1, false}, Way{Chunking::By::tokens, 3, false},
                                         Way{Chunking::By::tokens, 16, false}, Way{Chunking::By::peers, 4, false},
                                         Way{Chunking::By::experts, 2, false}, Way{Chunking::By::tokens, 3, true},
                                         Way{Chunking::By::peers, 4, true}),
                         [](const auto& i) { return name_of(i.param); });

TEST(SlotOrder, ChunksOfTokensAreAsEqualAsPossibleAndOrdered) {
  Lab lab;
  const ep::SlotOrder order =
      ep::order_slots(ids_of(lab, {1, 0, 1, 0, 1}, 1), {2, 1, {Chunking::By::tokens, 2}}, 0, lab.stream());
  EXPECT_EQ(order.counts, (std::vector<int64_t>{1, 2, 1, 1}));  // tokens 0 1 2, then 3 4
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

// Experts 0 and 2 are in the first chunk, 1 and 3 in the second chunk.
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

TEST(SlotOrder, ForSeveralRanksEqualsTheOrderOfEachRank) {
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

TEST(SlotOrder, RefusesMoreChunksThanParts) {
  Lab lab;
  const Tensor ids = ids_of(lab, {0}, 1);
  EXPECT_THROW(ep::order_slots(ids, {4, 2, {Chunking::By::peers, 3}}, 0, lab.stream()), std::logic_error);
  EXPECT_THROW(ep::order_slots(ids, {4, 2, {Chunking::By::experts, 3}}, 0, lab.stream()), std::logic_error);
  EXPECT_THROW(ep::order_slots(ids, {4, 2, {Chunking::By::tokens, 0}}, 0, lab.stream()), std::logic_error);
}

// Parm's EP&ESP-AlltoAll sends each row to all etp ranks of its expert. The grouped rows equal those of an exchange
// that sends each row to one etp rank and then gathers rows over the etp group.
TEST(RoutingPlan, DirectAndGatheringExchangesDeliverTheSameRows) {
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const auto ep_group = world.split(world.rank() % 2, 0, comm::TrafficClass::ep, "ep");
    const auto etp = world.split(world.rank() / 2, 0, comm::TrafficClass::tp, "etp");
    const ep::ExpertGroups groups{ep_group.get(), etp.get(), &world};
    const Tensor ids = random_ids(lab, world.rank(), 9, 2, 4);
    const auto grouped = [&](EspExchange esp_exchange) {
      const RoutingPlan plan = plan_for_ids(ids, 4, groups, {.esp_exchange = esp_exchange}, lab.stream());
      const Tensor rows = naming_rows(lab, plan, ids, world.rank());
      Tensor wire = rows;
      if (plan.indices.wire_slots.defined()) {
        wire = Tensor::empty({plan.indices.wire_slots.dim(0), 3}, Dtype::f64, lab.context);
        kernels::kernels(rows.device()).permute.gather(lab.stream(), wire, rows, plan.indices.wire_slots, {});
      }
      const ep::ChunkCounts& chunk = plan.counts.chunks.front();
      auto there = ep::send_to_experts(chunk, wire, plan.counts.all_to_all_group(groups), lab.stream());
      there.arrived.wait();
      if (esp_exchange == EspExchange::gather) there = ep::gather_rows(chunk.shared, there.data, *etp, lab.stream());
      there.arrived.wait();
      EXPECT_EQ(there.data.dim(0), chunk.rows_computed());
      return placed(lab, there.data, plan.indices.chunks.front().place, {});
    };
    expect_bitwise(grouped(EspExchange::gather), grouped(EspExchange::direct), Zeros::expected);
  });
}

// Arrived row: its local expert, the etp and ep rank of its source, its chunk, and its slot on the source. Grouped rows
// are sorted by these members, in this order.
struct ArrivedRow {
  int64_t expert, etp, ep, chunk, slot;
  auto operator<=>(const ArrivedRow&) const = default;
};

// Two ep ranks have four experts each. Two etp ranks share each expert.
TEST(RoutingPlan, PlacesEqualASearchRowByRow) {
  constexpr int64_t experts = 8, local = 4, top_k = 3;
  constexpr int ranks = 2;
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const auto ep_group = world.split(world.rank() % 2, 0, comm::TrafficClass::ep, "ep");
    const auto etp = world.split(world.rank() / 2, 0, comm::TrafficClass::tp, "etp");
    const ep::ExpertGroups groups{ep_group.get(), etp.get(), &world};
    const auto check = [&](const ep::PlanOptions& options) {
      const bool alike = options.esp_exchange == EspExchange::replicated;
      const auto ids_from = [&](int j, int p) {
        const int source = alike ? p : 2 * p + j;  // if `alike`, etp ranks hold the same tokens
        return random_ids(lab, source, source == 1 ? 0 : 9, top_k, experts);
      };
      std::vector<std::pair<int, int>> sources{{0, 0}, {0, 1}, {1, 0}, {1, 1}};  // etp rank, ep rank
      if (alike) sources.resize(2);
      if (options.esp_exchange == EspExchange::direct) std::swap(sources[1], sources[2]);
      std::vector<std::vector<ArrivedRow>> arrived(options.chunking.chunks);
      for (const auto& [j, p] : sources) {
        const Tensor sent = ids_from(j, p);
        const std::vector<int32_t> ids = sent.to_vector<int32_t>();
        for (int64_t e = 0; e < local; ++e)
          for (size_t slot = 0; slot < ids.size(); ++slot) {
            const int64_t expert = ep_group->rank() * local + e, at = static_cast<int64_t>(slot);
            if (ids[slot] != expert) continue;
            const int c = options.chunking.chunk(at / top_k, sent.dim(0), expert, local, p, ranks);
            arrived[c].push_back({e, j, p, c, at});
          }
      }
      std::vector<ArrivedRow> all;
      for (const auto& rows : arrived) all.insert(all.end(), rows.begin(), rows.end());
      const RoutingPlan plan =
          plan_for_ids(ids_from(etp->rank(), ep_group->rank()), experts, groups, options, lab.stream());
      for (size_t c = 0; c < arrived.size(); ++c) {
        const std::vector<ArrivedRow>& together = options.merged ? all : arrived[c];
        std::vector<int64_t> places, in_place(together.size());
        for (const ArrivedRow& row : arrived[c])
          places.push_back(std::count_if(together.begin(), together.end(), [&](const auto& r) { return r < row; }));
        std::iota(in_place.begin(), in_place.end(), int64_t{0});
        const Tensor& place = plan.indices.chunks[c].place;
        EXPECT_EQ(place.defined() ? place.to_vector<int64_t>() : in_place, places) << "chunk " << c;
        EXPECT_EQ(place.defined(), places != in_place) << "chunk " << c;
        EXPECT_EQ(plan.counts.chunks[c].placed, place.defined());
      }
    };
    const Chunking chunkings[] = {{}, {Chunking::By::tokens, 3}, {Chunking::By::peers, 2}, {Chunking::By::experts, 4}};
    for (const auto& [esp_exchange, name] : enum_names(EspExchange::gather))
      for (const Chunking& chunking : chunkings)
        for (bool merged : {false, true}) {
          SCOPED_TRACE(cat(name, ", ", name_of(Way{chunking.by, chunking.chunks, merged})));
          check({.chunking = chunking, .esp_exchange = esp_exchange, .merged = merged});
        }
  });
}

// A kernel, not the host, computes the numbers that each row needs.
TEST(RoutingPlan, UploadsAsManyBytesForManyRowsAsForFew) {
  const auto uploaded = [](int64_t tokens) {
    const auto run = std::make_shared<device::MetaRun>(device::DeviceKind::cuda);
    run->record_issues();
    device::DeviceContext context({.kind = device::DeviceKind::meta, .meta = run});
    const comm::ImaginedGroup world(0, 4, run->issues());
    std::vector<int32_t> ids;
    for (int64_t slot = 0; slot < 2 * tokens; ++slot) ids.push_back(static_cast<int32_t>(slot % 8));
    const Tensor chosen = Tensor::from<int32_t>(ids, {tokens, 2}, context);
    const size_t before = run->issues()->issues().size();
    const RoutingPlan plan = plan_over(world, chosen, 8);
    EXPECT_EQ(plan.indices.chunks.at(0).place.shape(), (Shape{2 * tokens}));
    int64_t bytes = 0;
    for (size_t i = before; i < run->issues()->issues().size(); ++i) {
      const auto* copy = std::get_if<device::CopyWork>(&run->issues()->issues()[i].work);
      if (copy && copy->kind == device::CopyWork::Kind::from_host) bytes += copy->bytes;
    }
    return bytes;
  };
  const int64_t few = uploaded(8);
  EXPECT_GT(few, 0);
  EXPECT_EQ(uploaded(800), few);
}

// EPS-MoE: experts get the same rows whether the rows sent represent slots or tokens.
TEST(RoutingPlan, RowsOfTokensBecomeTheGroupedRowsOfSlots) {
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const Tensor ids = random_ids(lab, world.rank(), world.rank() == 1 ? 0 : 9, 3, 8);
    // Rows contain their source rank and token.
    const auto grouped = [&](RowOf row_of, Chunking chunking, std::vector<int64_t>& offsets) {
      const RoutingPlan plan = plan_over(world, ids, 8, {.chunking = chunking, .row_of = row_of});
      std::vector<Tensor> all;
      const Tensor arrived = Tensor::empty({plan.counts.rows_gathered(), 2}, Dtype::f64, lab.context);
      for (size_t c = 0; c < plan.counts.chunks.size(); ++c) {
        const ep::ChunkCounts& chunk = plan.counts.chunks[c];
        const ep::ChunkIndices& indices = plan.indices.chunks[c];
        std::vector<double> names;
        for (const int64_t token : chunk.part_of(plan.indices.wire_tokens).to_vector<int64_t>())
          names.push_back(world.rank()), names.push_back(static_cast<double>(token));
        const Tensor rows = lab.values(names, {chunk.rows_to_send(), 2});
        auto there = ep::send_to_experts(chunk, rows, world, lab.stream());
        there.arrived.wait();
        offsets.insert(offsets.end(), chunk.offsets.begin(), chunk.offsets.end());
        if (row_of == RowOf::slot) {
          all.push_back(placed(lab, there.data, indices.place, {}));
          continue;
        }
        EXPECT_FALSE(indices.place.defined());
        EXPECT_TRUE(chunk.placed);
        EXPECT_EQ(chunk.rows_in_chunk, chunk.rows_computed());
        EXPECT_EQ(indices.reduced.dim(0), chunk.rows_to_return());
        EXPECT_EQ(indices.returned.defined(), plan.counts.joined);
        const auto& k = kernels::kernels(rows.device());
        Tensor from = there.data;
        if (plan.counts.joined) {  // the rows of earlier chunks are also needed
          const int64_t end = chunk.arrived_begin + chunk.rows_received();
          k.pointwise.copy(lab.stream(), arrived.slice(0, chunk.arrived_begin, end), there.data);
          from = arrived.slice(0, 0, end);
        }
        all.push_back(Tensor::empty({chunk.rows_computed(), 2}, Dtype::f64, lab.context));
        k.permute.gather(lab.stream(), all.back(), from, indices.source, {});
      }
      return all;
    };
    const Chunking chunkings[] = {{}, {Chunking::By::tokens, 3}, {Chunking::By::peers, 4}, {Chunking::By::experts, 2}};
    for (const Chunking& chunking : chunkings) {
      std::vector<int64_t> of_slots, of_tokens;
      const auto slots = grouped(RowOf::slot, chunking, of_slots), tokens = grouped(RowOf::token, chunking, of_tokens);
      EXPECT_EQ(of_slots, of_tokens);
      for (size_t c = 0; c < slots.size(); ++c) expect_bitwise(slots[c], tokens[c], Zeros::expected);
    }
  });
}

}  // namespace
}  // namespace hexad::tests
