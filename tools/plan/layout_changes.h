// Changes of a layout that keep the sizes of its groups. A plan tries them one key after another.
#pragma once

#include <span>
#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Ranks, prices and goal of a plan's layouts. The members outlive it.
struct PlanSite {
  const LayoutRules& rules;
  const train::Extensions& extensions;
  const StepPrices& prices;
  const PlanRequest& request;
  double memory;       // bytes that tensors of a rank may take
  double host_memory;  // bytes that offloaded tensors of a rank may take in its host's memory
};

/// Returns the recipe with other values of a key, or of keys that exclude each other. They may be illegal, or the
/// recipe's own.
using Changes = std::vector<train::Recipe> (*)(const train::Recipe& recipe, const PlanSite& site);

/// Returns the keys to change, in the order of the search:
/// - offload.activations, offload.optimizer, schedule.moe.memory_reuse: values that save memory under
///   Objective::memory, otherwise those that do not
/// - schedule.pipeline.overlap
/// - schedule.moe: chunk_by and overlap, which begin with two chunks; chunks, doubled or halved; rows; duplicates;
///   esp_exchange; order
/// - parallel.order: orders by which no kind of group is spread more widely over nodes unless another one is spread
///   less widely, one for each way to spread groups (PlanRequest::orders)
std::span<const Changes> changes_by_key();

/// Returns the recipe with more data offloaded: the optimizer's state, activations, both.
std::vector<train::Recipe> with_more_offloaded(const train::Recipe& recipe);

}  // namespace hexad::plan
