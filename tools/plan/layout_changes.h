// Changes of a layout that keep the sizes of its groups. The planner's search tries one key after another.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tools/plan/plan_search.h"

namespace hexad::plan {

/// Ranks, prices and objective of a plan's layouts. The referenced objects must outlive a PlanSite.
struct PlanSite {
  LayoutRules& rules;
  const train::Extensions& extensions;
  const StepPrices& prices;
  const PlanRequest& request;
  double memory;                           // limit of a rank's tensors, in bytes
  double host_memory;                      // limit of a rank's offloaded tensors in its host's memory, in bytes
  std::shared_ptr<SharedByRuns> shared{};  // results that the runs of all layouts share; null: none
};

/// Function that returns copies of a recipe, each with other values of one key or of a few related keys. A copy can be
/// illegal, or equal to the recipe.
using Changes = std::vector<train::Recipe> (*)(const train::Recipe& recipe, const PlanSite& site);

/// Changes of one key, or of a few related keys.
struct ChangesOfKey {
  Changes changed_recipes;
  bool in_layers = false;  // true: the changes affect nothing outside the layers
};

/// Returns the changes of these keys, in the order of the search:
/// - offload.optimizer and offload.activations: under Objective::memory, the values that save memory; otherwise, the
///   values without offload
/// - schedule.moe.memory_reuse: all other values under Objective::memory, otherwise only the value none
/// - schedule.pipeline.overlap
/// - schedule.pipeline.kind and virtual_stages: zb_v, dualpipe_v, interleaved with 4 and 2 virtual stages, zb_h1, 1f1b
/// - parallel.cp_kind: all other values
/// - schedule.moe.chunk_by: none, or another kind with two chunks
/// - schedule.moe.chunks: twice and half as many, or the next divisors of a rank's experts
/// - parallel.order: orders that spread at least one kind of group less widely than the recipe's order
///   (PlanRequest::orders). An order is omitted if another returned order spreads no kind of group more widely than
///   this order. Under Objective::memory, no orders
/// - distributed.bucket_bytes: four times and a quarter of the size, from 1 MiB to 2 GiB
/// - other choices of schedule.moe: rows, duplicates, overlap (with the recipe's chunks, or with two chunks if the
///   recipe has none), esp_exchange, order
std::span<const ChangesOfKey> changes_by_key();

/// Returns copies of the recipe with more data offloaded: the optimizer's state, activations, or both.
std::vector<train::Recipe> with_more_offloaded(const train::Recipe& recipe);

}  // namespace hexad::plan
