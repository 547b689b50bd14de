#include "tools/plan/memory_estimate.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "parallel/pp/program_check.h"
#include "tools/plan/neediest_ranks.h"
#include "tools/plan/step_on_meta.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using namespace train;

using base::Axis;
using device::Category;

MemoryEstimate estimate_memory(const Recipe& r, const train::Extensions& extensions, const mesh::Layout& layout,
                               int rank, RoutingLoad load) {
  return memory_of(step_on_meta(r, extensions, layout, rank, load, Wanted::memory), r, layout, rank);
}

double least_memory(const Recipe& r, const train::Extensions& extensions, const mesh::Layout& layout, int rank) {
  const StepOnMeta step = step_on_meta(r, extensions, layout, rank, RoutingLoad::even, Wanted::least_memory);
  return static_cast<double>(step.memory.peak_total);
}

namespace {

// Estimates the memory of ranks of one layout. The pipeline is divided into stages once for all ranks.
class RankEstimates {
 public:
  RankEstimates(const Recipe& recipe, const train::Extensions& extensions, int64_t world, const RoutingLoad& load,
                std::shared_ptr<SharedByRuns> shared = nullptr)
      : shared_(shared ? std::move(shared) : std::make_shared<SharedByRuns>()),
        recipe_(shared_->divided(recipe, extensions)),
        extensions_(extensions),
        layout_(recipe.parallel.sizes(), static_cast<int>(world)),
        load_(load) {}

  // Returns the ranks that may need the most memory in their stage, by stage.
  std::vector<std::vector<int>> ranks() const { return distinct_ranks(recipe_, layout_, load_); }
  // Returns the ranks that may need the most memory in the whole job, by stage.
  std::vector<std::vector<int>> neediest() const { return neediest_ranks(recipe_, layout_, load_, *shared_); }
  MemoryEstimate of(int rank) const {
    const StepOnMeta step = step_on_meta(recipe_, extensions_, layout_, rank, load_, Wanted::memory, shared_);
    return memory_of(step, recipe_, layout_, rank);
  }

 private:
  const std::shared_ptr<SharedByRuns> shared_;
  const Recipe recipe_;
  const train::Extensions& extensions_;
  const mesh::Layout layout_;
  const RoutingLoad& load_;
};

MemoryEstimate by_category(const device::MemoryStats& memory) {
  const auto peak = [&](Category c) { return static_cast<double>(memory.peak_in(c)); };
  MemoryEstimate m{.weights = peak(Category::parameter),
                   .gradients = peak(Category::gradient),
                   .optimizer = peak(Category::optimizer),
                   .activations = peak(Category::activation),
                   .connections = peak(Category::connection),
                   .total = static_cast<double>(memory.peak_total),
                   .blocks = static_cast<double>(memory.peak_held)};
  m.temporary = std::max(0.0, m.total - m.weights - m.gradients - m.optimizer - m.activations - m.connections);
  return m;
}

}  // namespace

MemoryEstimate memory_of(const StepOnMeta& step, const Recipe& r, const mesh::Layout& layout, int rank) {
  MemoryEstimate m = by_category(step.memory);
  m.offloaded = static_cast<double>(step.offloaded);
  const auto micro_batches = static_cast<int>(r.batch.global / r.batch.micro / layout.size(Axis::dp));
  const pp::Schedule schedule = pp::make_schedule(pipeline_of(r), layout.size(Axis::pp), micro_batches);
  m.in_flight = pp::peak_activations(schedule)[layout.coordinate(Axis::pp, rank)];
  return m;
}

std::vector<MemoryEstimate> estimate_stages(const Recipe& r, const train::Extensions& extensions, int64_t world,
                                            RoutingLoad load) {
  const RankEstimates estimates(r, extensions, world, load);
  std::vector<MemoryEstimate> stages;
  for (const std::vector<int>& ranks : estimates.ranks()) {
    MemoryEstimate& most = stages.emplace_back();
    for (const int rank : ranks)
      if (const auto m = estimates.of(rank); m.total > most.total) most = m;
  }
  return stages;
}

std::vector<MemoryEstimate> estimate_evaluation(const Recipe& recipe, const train::Extensions& extensions,
                                                int64_t world) {
  const Recipe r = with_stage_split(recipe, extensions);
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world));
  std::vector<MemoryEstimate> stages;
  for (const std::vector<int>& ranks : distinct_ranks(r, layout, RoutingLoad::even)) {
    MemoryEstimate& most = stages.emplace_back();
    for (const int rank : ranks)
      if (const auto m = by_category(evaluation_on_meta(r, extensions, layout, rank)); m.total > most.total) most = m;
  }
  return stages;
}

MemoryEstimate estimate_memory_within(double limit, const Recipe& r, const train::Extensions& extensions, int64_t world,
                                      RoutingLoad load, std::shared_ptr<SharedByRuns> shared) {
  const RankEstimates estimates(r, extensions, world, load, std::move(shared));
  MemoryEstimate most;
  for (const std::vector<int>& ranks : estimates.neediest())
    for (const int rank : ranks) {
      if (const auto m = estimates.of(rank); m.total > most.total) most = m;
      if (most.total > limit) return most;
    }
  return most;
}

MemoryEstimate estimate_memory(const Recipe& r, const train::Extensions& extensions, int64_t world, RoutingLoad load,
                               std::shared_ptr<SharedByRuns> shared) {
  return estimate_memory_within(std::numeric_limits<double>::infinity(), r, extensions, world, std::move(load),
                                std::move(shared));
}

}  // namespace hexad::plan
