#include "tools/plan/memory_estimate.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "framework/device/block_size.h"
#include "parallel/pp/check.h"
#include "tools/plan/bucket_sizes.h"
#include "tools/plan/parameter_memory.h"
#include "tools/plan/stage_passes.h"
#include "tools/train/stages.h"

namespace hexad::plan {

using namespace train;

using base::Axis;

namespace {

double block(double bytes) { return static_cast<double>(device::block_size(static_cast<int64_t>(bytes))); }

// Bytes of an element of weights, of sums, of gradients as they are kept.
struct Widths {
  double weights, sums, gradients;
};

Widths widths_of(const Recipe& r, const HeldParameters& h) {
  const auto dtype = dtype_of(r.train.precision);
  const auto sums = static_cast<double>(base::size_of(base::accumulator_dtype(dtype)));
  const double weights = h.accumulator ? sums : static_cast<double>(base::size_of(dtype));
  const bool rounded = r.optim.grad_dtype == optim::GradientDtype::bf16;
  return {weights, sums, rounded ? weights : sums};
}

// What stays for the whole step.
void add_states(MemoryEstimate& m, const Recipe& r, std::span<const BucketSize> buckets) {
  double states = 0, state_blocks = 0;
  for (const BucketSize& b : buckets) {
    const Widths width = widths_of(r, b.like);
    const double moments = r.optim.kind == optim::OptimizerKind::adamw ? 2 * width.sums : 0;
    const plan::ParameterBytes whole{width.weights, width.gradients,
                                     moments + (width.weights == width.sums ? 0 : width.sums)};
    const plan::ParameterBytes kept = plan::kept_of(whole, b.zero, static_cast<double>(b.like.sharers));
    for (const int64_t n : b.entries) {
      const auto elements = static_cast<double>(n);
      m.weights += elements * kept.weights, m.gradients += elements * kept.gradients;
      states += elements * kept.optimizer;
      if (b.zero == 0) m.blocks += block(elements * kept.weights);
      const double each = width.sums * elements / (b.zero > 0 ? static_cast<double>(b.like.sharers) : 1);
      state_blocks += whole.optimizer / width.sums * block(each);
    }
    const auto elements = static_cast<double>(b.like.elements);
    if (b.zero > 0) m.blocks += block(elements * kept.weights);
    m.blocks += block(elements * kept.gradients);
  }
  if (r.offload.optimizer == optim::StateOffload::file)
    m.offloaded = states;
  else
    m.optimizer = states, m.blocks += state_blocks;
}

using Units = std::map<size_t, double>;  // bytes by number

// Of a unit and the next one.
double two(const Units& units) {
  double most = 0, before = 0;
  for (const auto& [unit, bytes] : units) most = std::max(most, before + bytes), before = bytes;
  return most;
}

// An MoE layer's pass holds all units of its experts, beside the unit that comes next. Two micro-batches in turns hold
// those of two layers.
double of_experts(const Recipe& r, std::span<const BucketSize> buckets, const Units& units) {
  std::map<int, std::set<size_t>> layers;
  for (const BucketSize& b : buckets)
    for (const int layer : b.layers) layers[layer].insert(b.unit);
  std::vector<double> held;
  double next = 0;
  for (const auto& [layer, its] : layers) {
    held.push_back(0);
    for (const size_t unit : its) held.back() += units.at(unit);
    for (const size_t beside : {*its.begin() - 1, *its.rbegin() + 1})
      if (const auto it = units.find(beside); it != units.end()) next = std::max(next, it->second);
  }
  std::ranges::sort(held, std::greater<>());
  const bool in_turns = r.schedule.pipeline.overlap == pp::Overlap::micro_batches;
  held.resize(std::min<size_t>(held.size(), in_turns ? 2 : 1));
  return std::accumulate(held.begin(), held.end(), next);
}

// Gradients on their way to their owners (ZeRO-2), weights that were gathered (ZeRO-3), the gradient of one parameter
// that several contributions are added up to before it is rounded.
double in_buckets(const Recipe& r, std::span<const BucketSize> buckets) {
  Units gradients, weights;
  double unrounded = 0;
  for (const BucketSize& b : buckets) {
    const Widths width = widths_of(r, b.like);
    const auto elements = static_cast<double>(b.like.elements);
    gradients[b.unit] += b.zero >= 2 ? elements * width.gradients : 0;
    weights[b.unit] += b.zero >= 3 ? elements * width.weights : 0;
    if (r.optim.grad_dtype == optim::GradientDtype::bf16)
      unrounded = std::max(unrounded, width.sums * static_cast<double>(b.largest_sum));
  }
  return two(gradients) + std::max(two(weights), of_experts(r, buckets, weights)) + unrounded;
}

}  // namespace

MemoryEstimate estimate_memory(const Recipe& r, const mesh::Layout& layout, int rank, RoutingLoad load) {
  MemoryEstimate m;
  const std::vector<BucketSize> buckets = bucket_sizes(r, layout, held_parameters(r, layout, rank));
  add_states(m, r, buckets);
  const auto sums = static_cast<double>(base::size_of(base::accumulator_dtype(dtype_of(r.train.precision))));
  const double tables = static_cast<double>(held_states(r, layout, rank)) * sums;
  m.weights += tables, m.blocks += block(tables);

  const int stage = layout.coordinate(Axis::pp, rank);
  const int64_t micro_batches = r.batch.global / r.batch.micro / layout.size(Axis::dp);
  const pp::Schedule schedule =
      pp::make_schedule(pipeline_of(r), layout.size(Axis::pp), static_cast<int>(micro_batches));
  const PassBytes passes = peak_of_step(r, layout, stage, schedule, load);
  // Tokens, their places and targets, and the borders of their documents, of all micro-batches of the step.
  const double batches = static_cast<double>(micro_batches * r.batch.micro * r.model.context) / layout.size(Axis::cp) *
                         5 * static_cast<double>(base::size_of(base::Dtype::i32));
  m.activations = passes.activations + batches;
  m.passing = passes.total - passes.activations + in_buckets(r, buckets);
  m.blocks += passes.blocks + batches + in_buckets(r, buckets);
  m.in_flight = pp::peak_activations(schedule)[static_cast<size_t>(stage)];
  return m;
}

std::vector<MemoryEstimate> estimate_stages(const Recipe& r, int64_t world, RoutingLoad load) {
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world));
  std::vector<MemoryEstimate> stages(static_cast<size_t>(layout.size(Axis::pp)));
  for (int rank = 0; rank < layout.world(); ++rank) {
    // Others hold alike; of what is cut unevenly the last of the ranks that share it has the most.
    bool first = true;
    for (const Axis axis : {Axis::dp, Axis::cp}) first &= layout.coordinate(axis, rank) == 0;
    if (!first || layout.coordinate(Axis::tp, rank) + 1 < layout.size(Axis::tp)) continue;
    MemoryEstimate& most = stages[static_cast<size_t>(layout.coordinate(Axis::pp, rank))];
    if (const MemoryEstimate m = estimate_memory(r, layout, rank, load); m.total() > most.total()) most = m;
  }
  return stages;
}

MemoryEstimate estimate_memory(const Recipe& r, int64_t world, RoutingLoad load) {
  const std::vector<MemoryEstimate> stages = estimate_stages(r, world, load);
  return *std::ranges::max_element(stages, {}, &MemoryEstimate::total);
}

}  // namespace hexad::plan
