// Checks that a recipe's section `schedule.moe` makes sense for its layout.
#pragma once

#include <vector>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Why `schedule` cannot be in the layout of `recipe`; none: it is legal. The rules are in the list of choices
/// (layers/moe/schedule/moe_schedule.h).
std::vector<moe::Refusal> contradictions(const Recipe& recipe, const moe::MoeSchedule& schedule);

/// Bytes below which schedule.moe.memory_limit is illegal for the recipe's layout: what chunks of one token need.
int64_t least_memory_limit(const Recipe& recipe, moe::ReuseStrategy strategy);

/// Every schedule that the recipe's choices allow, in the order of moe::combinations; the one of a recipe that leaves
/// nothing open.
std::vector<moe::MoeSchedule> legal_schedules(const Recipe& recipe, const layers::Registry& registry);

/// True if the program may choose schedules of more or fewer chunks than `schedule`.
bool chunks_open(const Recipe& recipe, const moe::MoeSchedule& schedule);
/// The largest number of chunks, of those from 2 on that are legal in `schedule` and tried at all.
int64_t most_chunks(const Recipe& recipe, const layers::Registry& registry, moe::MoeSchedule schedule);

void check_moe_schedule(const Recipe& recipe, const layers::Registry& registry, config::Problems& problems);

/// schedule.pipeline.overlap; of `world` ranks, 0: not known yet.
void check_micro_batch_overlap(const Recipe& recipe, int64_t world, config::Problems& problems);

/// Adds a schedule.moe.order that is not registered, with those that are, nearest first, or whose steps are illegal for
/// a schedule that the recipe allows.
void check_moe_order(const Recipe& recipe, const layers::Registry& registry, config::Problems& problems);

}  // namespace hexad::train
