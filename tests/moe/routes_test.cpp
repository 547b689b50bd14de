// Tokens of the rows that a rank sends.
#include "layers/moe/routes/routes.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_group.h"
#include "tests/moe/plain_pass.h"
#include "tests/support/lab.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
namespace {

constexpr int experts = 4;
const comm::SelfGroup self;

// Calls `check` with the routes of each of two ranks. Each rank has five tokens with two slots each, and one of its ten
// slots is dropped.
void with_routes(const moe::PassSettings& of_rank, const std::function<void(const moe::Routes&)>& check) {
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    Lab lab;
    moe::PassSettings settings = of_rank;
    if (settings.groups.ep == nullptr) settings.groups.ep = &world;
    if (settings.groups.etp == nullptr) settings.groups.etp = &world;
    settings.groups.experts = &world;
    std::vector<int32_t> ids{0, 3, 2, 1, 3, 0, 1, -1, 2, 3};
    if (world.rank() == 1) std::ranges::reverse(ids);
    check(moe::make_routes(lab.values(ids).reshape({5, 2}), moe::Held::apart, settings,
                           {.hidden = 4, .width = 4, .gated = true}, Dtype::f64, lab.stream()));
  });
}

moe::PassSettings settings_of(const ep::ExpertGroups& groups) {
  moe::PassSettings settings = pass_settings(groups, experts);
  settings.tensor = &self;
  return settings;
}

// Returns the token of each slot row. Inverts the map from slots to slot rows.
std::vector<int64_t> inverse_of_rows(const moe::Routes& routes) {
  std::vector<int64_t> tokens(routes.plan.counts.slots(), -1);
  const std::vector<int64_t> rows = routes.plan.indices.rows.to_vector<int64_t>();
  for (size_t slot = 0; slot < rows.size(); ++slot)
    if (rows[slot] >= 0) tokens[rows[slot]] = static_cast<int64_t>(slot / 2);
  return tokens;
}

TEST(TokensOfSlotRows, AreTheInverseOfTheRowsOfSlots) {
  moe::PassSettings settings = settings_of({nullptr, &self, nullptr});
  for (const moe::ChunkBy by : {moe::ChunkBy::none, moe::ChunkBy::tokens, moe::ChunkBy::experts}) {
    settings.schedule.chunk_by = by, settings.schedule.chunks = by == moe::ChunkBy::none ? 1 : 2;
    with_routes(settings, [](const moe::Routes& routes) {
      const Tensor tokens = routes.tokens_of_slot_rows();
      ASSERT_TRUE(tokens.defined());
      EXPECT_EQ(tokens.to_vector<int64_t>(), inverse_of_rows(routes));
      EXPECT_EQ(tokens.dim(0), 9) << "one of ten slots is dropped";
    });
  }
}

// Padding is copied from token 0. The gradients of padding would not be set to zero if token 0 counted as the token of
// padding.
TEST(TokensOfSlotRows, AreUnknownWithPadding) {
  moe::PassSettings settings = settings_of({nullptr, &self, nullptr});
  settings.schedule.capacity_padding = moe::CapacityPadding::full, settings.capacity_factor = 2;
  with_routes(settings, [](const moe::Routes& routes) {
    EXPECT_GT(routes.plan.counts.slots(), 10) << "there is no padding";
    EXPECT_FALSE(routes.tokens_of_slot_rows().defined());
  });
}

// Each slot row is sent to both etp ranks, so the rows to send are not the slot rows.
TEST(TokensOfSlotRows, AreUnknownIfRowsAreSentInAnotherOrder) {
  moe::PassSettings settings = settings_of({&self, nullptr, nullptr});
  settings.schedule.esp_exchange = ep::EspExchange::direct;
  with_routes(settings, [](const moe::Routes& routes) {
    EXPECT_EQ(routes.plan.indices.wire_slots.dim(0), 2 * routes.plan.counts.slots());
    EXPECT_FALSE(routes.tokens_of_slot_rows().defined());
  });
}

}  // namespace
}  // namespace hexad::tests
