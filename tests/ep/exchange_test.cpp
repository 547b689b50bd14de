// Delivery of rows to their experts and back, for every division into chunks.
#include "parallel/ep/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/comm/thread_group.h"
#include "parallel/ep/routing_plan.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/ep/random_routes.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
namespace {

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
      const ep::RoutingOptions options{.chunking = {way.by, std::min(way.chunks, most)}, .merged = way.merged};
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

// Parm's EP&ESP-AlltoAll sends each row to all etp ranks of its expert. Another exchange sends each row to one etp
// rank, and then gathers rows over the etp group. Both exchanges result in the same grouped rows.
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

// EPS-MoE: experts receive the same rows, whether rows of slots or rows of tokens are sent.
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
