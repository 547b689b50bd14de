#include "tools/plan/few_layers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/plan/run_on_meta.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::plan {

using device::Category;
using train::Recipe;

namespace {

// Returns the node of each rank of the first stage, in ascending order of the ranks.
std::vector<int> nodes_of_stage(const Recipe& r, int64_t ranks_per_node, int64_t world, int64_t stages) {
  mesh::Sizes sizes = r.parallel.sizes();
  sizes.pp = static_cast<int>(stages);
  const mesh::Layout whole(sizes, static_cast<int>(world));
  std::vector<int> nodes;
  for (int rank = 0; rank < whole.world(); ++rank)
    if (whole.coordinate(base::Axis::pp, rank) == 0) nodes.push_back(static_cast<int>(rank / ranks_per_node));
  return nodes;
}

FewLayersStep memory_of(const device::MemoryStats& stats) {
  const auto peak = [&](Category c) { return static_cast<double>(stats.peak_in(c)); };
  FewLayersStep step{.weights = peak(Category::parameter),
                     .gradients = peak(Category::gradient),
                     .optimizer = peak(Category::optimizer),
                     .activations = peak(Category::activation)};
  step.temporary = std::max(
      0.0, static_cast<double>(stats.peak_total) - step.weights - step.gradients - step.optimizer - step.activations);
  return step;
}

// Extrapolates the size of an operation from its sizes in the two recorded steps, `less` and `more`.
struct Line {
  double times;
  double operator()(double less, double more) const { return std::max(0.0, less + (more - less) * times); }
  void extend(int64_t& more, int64_t less) const {
    more = std::llround((*this)(static_cast<double>(less), static_cast<double>(more)));
  }
};

struct Extend {
  const Line& line;
  double sequences, times_longer;

  void operator()(device::ProductWork& more, const device::ProductWork& less) const {
    line.extend(more.rows, less.rows), line.extend(more.inputs, less.inputs), line.extend(more.outputs, less.outputs);
    line.extend(more.extra_bytes, less.extra_bytes);
  }
  void operator()(device::AttentionWork& more, const device::AttentionWork&) const {
    more.flops *= sequences * times_longer * times_longer;
    more.keys = std::llround(static_cast<double>(more.keys) * times_longer);
    more.heads = std::llround(static_cast<double>(more.heads) * sequences);
  }
  void operator()(device::MemoryWork& more, const device::MemoryWork& less) const {
    line.extend(more.bytes, less.bytes);
  }
  void operator()(device::CopyWork& more, const device::CopyWork& less) const { line.extend(more.bytes, less.bytes); }
  void operator()(device::CommunicationWork& more, const device::CommunicationWork& less) const {
    line.extend(more.sent, less.sent), line.extend(more.received, less.received);
  }
  template <class A, class B>
  void operator()(A&, const B&) const {
    base::fail_invariant("[plan] steps of two lengths issue different operations");
  }
};

}  // namespace

FewLayers::FewLayers(Recipe r, const train::Extensions& extensions, const Prices& prices, int64_t world, int64_t stages,
                     const std::array<int64_t, 2>& contexts)
    : prices_(prices, nodes_of_stage(r, prices.ranks_per_node(), world, stages)),
      contention_(prices_.contention(train::priorities_of(r.distributed))),
      contexts_(contexts) {
  r.batch.micro = 1;
  r.parallel.pp = 1;
  r.schedule.pipeline = {};
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(prices_.node_of_rank().size()));
  for (size_t length = 0; length < 2; ++length) {
    r.model.context = contexts[length];
    RunOnMeta run(r, extensions, layout, 0, RoutingLoad::even, RunOnMeta::Record::issues, prices_.node_of_rank());
    run.follow_spans();
    // Under ZeRO-3, a first step records the order in which weights are used.
    if (r.parallel.zero == 3) run.step(2);
    const auto& memory = run.instance().context.allocator();
    memory->reset_peaks();
    longer_ = record_step(run, 2, 0);
    memory_[length] = memory_of(memory->stats());
    if (length == 0)
      for (const device::Issue& issue : longer_.issues) shorter_.push_back(issue.work);
  }
  const auto alike = [](const device::Work& a, const device::Issue& b) { return a.index() == b.work.index(); };
  if (!std::ranges::equal(shorter_, longer_.issues, alike)) contexts_[0] = contexts_[1];  // ignores the shorter length
}

StepRecord FewLayers::with_tokens(double sequences, double context) const {
  const auto shorter = static_cast<double>(contexts_[0]), longer = static_cast<double>(contexts_[1]);
  StepRecord record = longer_;
  if (longer == shorter) return record;
  const Line line{(sequences * context - shorter) / (longer - shorter)};
  const Extend extend{line, sequences, context / longer};
  for (size_t i = 0; i < shorter_.size(); ++i) std::visit(extend, record.issues[i].work, shorter_[i]);
  return record;
}

FewLayersStep FewLayers::step(int64_t sequences, int64_t context) const {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const StepRecord record = with_tokens(number(sequences), number(context));
  const RecordPrices priced(prices_, record);
  const SimulatedStep simulated = simulate_step(
      std::span(&record, 1), prices_.node_of_rank(),
      [&](const StepRecord&, const device::Issue& issue) { return priced.seconds(issue); }, contention_);
  const std::vector<schedule::Interval>& times = simulated.ranks.front().times;
  const size_t first = record.first_in("forward, micro-batch 0"), second = record.first_in("forward, micro-batch 1");

  FewLayersStep step = memory_[1];
  step.micro_batch = times[second].begin - times[first].begin;
  step.rest = std::max(0.0, simulated.seconds - 2 * step.micro_batch);
  const auto [shorter, longer] = contexts_;
  const double tokens = number(sequences * context);
  if (longer > shorter) {
    const Line by_tokens{(tokens - number(shorter)) / number(longer - shorter)};
    step.activations = by_tokens(memory_[0].activations, memory_[1].activations);
    step.temporary = by_tokens(memory_[0].temporary, memory_[1].temporary);
    const Line by_length{number(context - shorter) / number(longer - shorter)};  // rotary tables grow with the length
    step.weights = by_length(memory_[0].weights, memory_[1].weights);
  } else {
    for (double FewLayersStep::*value :
         {&FewLayersStep::micro_batch, &FewLayersStep::activations, &FewLayersStep::temporary})
      step.*value *= tokens / number(longer);
  }
  for (size_t i = first; i < second; ++i)
    if (const auto* work = std::get_if<device::CommunicationWork>(&record.issues[i].work))
      if (record.groups[work->group].traffic == static_cast<int>(comm::TrafficClass::dp))
        step.dp_traffic += priced.seconds(record.issues[i]);
  return step;
}

}  // namespace hexad::plan
