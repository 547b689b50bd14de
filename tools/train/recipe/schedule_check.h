// Checks that a recipe's section `schedule.moe` is legal for its layout.
#pragma once

#include <vector>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// True if no communication of an MoE layer overlaps the layer's expert computation. False if a setting that could
/// cause overlap is `auto`. True for schedule.moe.overlap: none, even if the work is divided into chunks.
bool computes_alone(const moe::MoeScheduleConfig& schedule);

/// Returns the reasons why `schedule` is illegal in the layout of `recipe`; empty if it is legal. The rules are part of
/// the list of choices in layers/moe/schedule/moe_choices.h.
std::vector<moe::Refusal> contradictions(const Recipe& recipe, const moe::MoeSchedule& schedule);

/// Returns the smallest legal schedule.moe.memory_limit under memory_reuse `strategy` in the recipe's layout, in bytes:
/// the size of the buffers for chunks of one token.
int64_t least_memory_limit(const Recipe& recipe, moe::ReuseStrategy strategy);

/// Returns the legal schedules among moe::combinations of the recipe, in the same order. For a recipe without `auto`
/// settings in schedule.moe, returns its only schedule, which may be illegal. An illegal order that the recipe names
/// removes no schedule; check_moe_order() reports it.
std::vector<moe::MoeSchedule> legal_schedules(const Recipe& recipe, const layers::Registry& registry);

/// True if the program may choose a schedule that differs from `schedule` only in its number of chunks.
bool chunks_open(const Recipe& recipe, const moe::MoeSchedule& schedule);
/// Returns the legal numbers of chunks that the program would try in `schedule`, ascending. With chunk_by: experts, it
/// would try the divisors, from 2 on, of the number of a rank's experts. Otherwise, it would try the numbers from 2 to
/// 16. Returns 2 if no number is legal.
std::vector<int64_t> legal_chunks(const Recipe& recipe, const layers::Registry& registry, moe::MoeSchedule schedule);

/// Adds a problem for each key of schedule.moe that is illegal in the layout or contradicts another key.
void check_moe_schedule(const Recipe& recipe, const layers::Registry& registry, config::Problems& problems);

/// Adds a problem if schedule.pipeline.overlap is illegal on `world` ranks; 0: the number of ranks is unknown.
void check_micro_batch_overlap(const Recipe& recipe, int64_t world, config::Problems& problems);

/// Adds a problem if schedule.moe.order is not a registered order; the problem lists the registered orders, nearest
/// first. Also adds a problem if the order differs from the default although no work is divided into chunks. Also adds
/// a problem if the order's steps are illegal for a schedule that the recipe allows.
void check_moe_order(const Recipe& recipe, const layers::Registry& registry, config::Problems& problems);

}  // namespace hexad::train
