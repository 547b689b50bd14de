// Counts and indices of routing plans.
#include "parallel/ep/routing_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "framework/device/meta/meta_run.h"
#include "parallel/comm/imagined_group.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/received_counts.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/ep/random_routes.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
namespace {

TEST(RoutingPlan, SortsRowsByExpertThenToken) {
  Lab lab;
  const comm::SelfGroup self;
  // Token 0 has experts 2 and 0, token 1 has a dropped slot and expert 1, and token 2 has experts 0 and 2.
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

TEST(RoutingPlan, RefusesExpertsOutOfRange) {
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

// Arrived row: its local expert, the etp and ep rank of its source, its chunk, and its slot on the source. Grouped rows
// are sorted by these members, in this order.
struct ArrivedRow {
  int64_t expert, etp, ep, chunk, slot;
  auto operator<=>(const ArrivedRow&) const = default;
};

// Two ep ranks have four experts each. Two etp ranks share each expert.
TEST(RoutingPlan, PositionsOfRowsEqualThoseOfARowByRowSearch) {
  constexpr int64_t experts = 8, local = 4, top_k = 3;
  constexpr int ranks = 2;
  comm::with_ranks(4, [](const comm::ProcessGroup& world) {
    Lab lab;
    const auto ep_group = world.split(world.rank() % 2, 0, comm::TrafficClass::ep, "ep");
    const auto etp = world.split(world.rank() / 2, 0, comm::TrafficClass::tp, "etp");
    const ep::ExpertGroups groups{ep_group.get(), etp.get(), &world};
    const auto check = [&](const ep::RoutingOptions& options) {
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

// A kernel, not the host, computes the indices of the rows.
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

// Returns the operations that make a routing plan of the first of four imagined ranks, in their order: "counts" for the
// gather of counts over the ep group, and "to host" for a copy to the host. `cards` is as in ImaginedGroup.
std::vector<std::string> counting_with(std::shared_ptr<const comm::ImaginedCards> cards) {
  const auto run = std::make_shared<device::MetaRun>(device::DeviceKind::cuda);
  run->record_issues();
  device::DeviceContext context({.kind = device::DeviceKind::meta, .meta = run});
  const comm::ImaginedGroup world(0, 4, run->issues(), {}, std::move(cards));
  const comm::SelfGroup self;
  const ep::ExpertGroups groups{&world, &self, &world};
  const Tensor ids = Tensor::from<int32_t>(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, context);
  const size_t before = run->issues()->issues().size();
  const ep::SlotOrder order = ep::order_slots(
      ids, {.experts = 8, .ranks = 4, .counting = ep::counting_group(groups, {})}, 0, context.compute());
  const RoutingPlan plan = ep::make_routing_plan(order, groups, {}, context.compute());
  EXPECT_EQ(plan.counts.chunks.at(0).splits.send, (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(plan.counts.chunks.at(0).splits.receive, (std::vector<int64_t>{2, 2, 2, 2}));
  std::vector<std::string> names;
  for (size_t i = before; i < run->issues()->issues().size(); ++i) {
    const device::Issue& issue = run->issues()->issues()[i];
    const auto* copy = std::get_if<device::CopyWork>(&issue.work);
    if (issue.communicates()) names.emplace_back("counts");
    if (copy && copy->kind == device::CopyWork::Kind::to_host) names.emplace_back("to host");
  }
  return names;
}

TEST(RoutingPlan, ImaginedDevicesGatherTheCountsUnderNccl) {
  const auto cards = std::make_shared<const comm::ImaginedCards>(comm::ImaginedCards{.node_of_rank = {0, 0, 0, 0}});
  EXPECT_EQ(counting_with(cards), (std::vector<std::string>{"counts", "to host"}));
  EXPECT_EQ(counting_with(nullptr), (std::vector<std::string>{"to host", "counts"}));
}

}  // namespace
}  // namespace hexad::tests
