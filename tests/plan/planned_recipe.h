// Recipe that is planned for 16 ranks, and the layouts that a plan compares.
#pragma once

#include <cstdint>
#include <string>

#include "tests/training/training.h"
#include "tools/plan/plan_search.h"

namespace hexad::tests {

using namespace plan;

inline const std::string yaml =
    "model: {layers: 8, hidden: 512, heads: 8, kv_heads: 4, context: 512, vocab: 1024,\n"
    "        moe: {experts: 8, top_k: 2, expert_hidden: 512}}\n"
    "batch: {global: 64, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "data: {synthetic: true}\n";

inline constexpr int64_t ranks = 16;

inline PlanCandidates candidates() {
  return plan_candidates(config::parse(yaml, "plan.yaml"), recipe_of(yaml), {},
                         {.world = ranks, .ranks_per_domain = 8});
}

}  // namespace hexad::tests
