// Check that a recipe's section `schedule.moe` is legal for its layout.
#pragma once

#include <vector>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// True if no communication of an MoE layer's pass is in flight while its experts compute. An open setting counts as
/// possible overlap.
bool computes_alone(const moe::MoeScheduleConfig& schedule);

/// Returns the reasons why `schedule` is illegal in the layout of `recipe`; empty if it is legal. The rules are in the
/// list of choices (layers/moe/schedule/moe_schedule.h).
std::vector<moe::Refusal> contradictions(const Recipe& recipe, const moe::MoeSchedule& schedule);

/// Returns the smallest legal schedule.moe.memory_limit for the recipe's layout, in bytes: the memory for chunks of one
/// token.
int64_t least_memory_limit(const Recipe& recipe, moe::ReuseStrategy strategy);

/// Returns every schedule that the recipe's choices allow, in the order of moe::combinations. A recipe without open
/// choices has one schedule.
std::vector<moe::MoeSchedule> legal_schedules(const Recipe& recipe, const layers::Registry& registry);

/// True if the program may choose a schedule that differs from `schedule` only in its number of chunks.
bool chunks_open(const Recipe& recipe, const moe::MoeSchedule& schedule);
/// Returns the legal numbers of chunks in `schedule` that the program would try, in ascending order: with chunk_by:
/// experts, the divisors of a rank's experts; else 2 to 16. Never empty: 2 if none is.
std::vector<int64_t> legal_chunks(const Recipe& recipe, const layers::Registry& registry, moe::MoeSchedule schedule);

void check_moe_schedule(const Recipe& recipe, const layers::Registry& registry, config::Problems& problems);

/// Checks schedule.pipeline.overlap on `world` ranks; 0: their number is unknown.
void check_micro_batch_overlap(const Recipe& recipe, int64_t world, config::Problems& problems);

/// Adds a problem that names the registered orders, nearest first, if schedule.moe.order is not one of them. Adds a
/// problem if the order's steps are illegal for a schedule that the recipe allows.
void check_moe_order(const Recipe& recipe, const layers::Registry& registry, config::Problems& problems);

}  // namespace hexad::train
