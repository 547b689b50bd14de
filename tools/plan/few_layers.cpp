#include "tools/plan/few_layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "framework/kernels/meta/meta_table.h"
#include "tools/plan/frozen_periods.h"
#include "tools/plan/number.h"
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

double peak_in(const device::MemoryStats& stats, Category c) { return static_cast<double>(stats.peak_in(c)); }

FewLayersMemory memory_of(const device::MemoryStats& stats) {
  return {.weights = peak_in(stats, Category::parameter),
          .gradients = peak_in(stats, Category::gradient),
          .optimizer = peak_in(stats, Category::optimizer),
          .activations = peak_in(stats, Category::activation)};
}

// Returns the peak bytes without the tensors that are counted separately. Includes NCCL's buffers.
double temporary_of(const device::MemoryStats& stats) {
  const FewLayersMemory kept = memory_of(stats);
  return std::max(
      0.0, static_cast<double>(stats.peak_total) - kept.weights - kept.gradients - kept.optimizer - kept.activations);
}

// Extrapolates a size linearly from its values in the two recorded steps, `less` and `more`. `times` is 0 at the step
// with the shorter sequences, and 1 at the step with the longer sequences.
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

  // The largest group of a product keeps its share of the rows.
  void operator()(device::ProductWork& more, const device::ProductWork& less) const {
    const double largest = more.rows > 0 ? static_cast<double>(more.largest) / static_cast<double>(more.rows) : 0;
    line.extend(more.rows, less.rows), line.extend(more.inputs, less.inputs), line.extend(more.outputs, less.outputs);
    line.extend(more.extra_bytes, less.extra_bytes);
    more.largest = std::llround(largest * static_cast<double>(more.rows));
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
    base::fail_invariant("[plan] two recorded steps issue different kinds of work; expected equal kinds");
  }
};

// Multiplies the bytes of weight updates by the factor `times`. The products of Muon do not change, because a rank
// orthogonalises whole matrices, even if it holds only a shard of them.
struct Enlarge {
  int64_t times;

  void operator()(device::MemoryWork& work) const { work.bytes *= times; }
  void operator()(device::CopyWork& work) const { work.bytes *= times; }
  template <class W>
  void operator()(W&) const {}
};

bool is_attention(const device::Work& work) { return std::holds_alternative<device::AttentionWork>(work); }

// Removes ranks from groups in which the recorded rank neither sends nor receives messages. Keeps the recorded rank
// and, if there is one, a rank in another domain of the fast link. The simulation of a single rank does not use the
// other ranks, and groups can have thousands of ranks.
void keep_few_ranks(StepRecord& record, const StepPrices& prices) {
  const int64_t nodes_of_domain = prices.nodes_of_domain();
  const auto domain_of = [&](int rank) { return prices.node_of_rank()[rank] / nodes_of_domain; };
  std::vector<char> has_messages(record.groups.size());
  for (const device::Issue& issue : record.issues)
    if (const auto* work = std::get_if<device::CommunicationWork>(&issue.work); work && work->peer >= 0)
      has_messages[work->group] = true;
  for (size_t g = 0; g < record.groups.size(); ++g) {
    if (has_messages[g]) continue;
    device::IssuedGroup& group = record.groups[g];
    const int mine = group.ranks[group.rank];
    const auto elsewhere =
        std::ranges::find_if(group.ranks, [&](int rank) { return domain_of(rank) != domain_of(mine); });
    std::vector<int> few{mine};
    if (elsewhere != group.ranks.end()) few.push_back(*elsewhere);
    group.ranks = std::move(few), group.rank = 0;
  }
}

// Returns a rank's memory for the loss that tp ranks share, as a multiple of the memory for one block without tp.
// tp::vocab_cross_entropy() keeps the logits of two blocks: it computes the logits of a block while statistics of the
// previous block are in flight. The function keeps the gradient of one block, in the model's dtype. The gradient uses
// the memory of the logits if the logits have the model's dtype.
double blocks_of_shared_loss(const Recipe& r) {
  const base::Dtype weights = train::dtype_of(r.train.precision);
  const base::Dtype of_logits = r.train.dtype_of_logits().value_or(base::accumulator_dtype(weights));
  const double logits = number(base::size_of(of_logits));
  const double gradient = of_logits == weights ? 0 : number(base::size_of(weights));
  return (2 * logits + gradient) / (logits + gradient);
}

// Maximum of the longer recorded sequence length, in tokens of a rank, before rounding. A shorter context of the recipe
// replaces this maximum.
constexpr int64_t recorded_tokens = 1024;

// Difference between the two recorded sequence lengths before rounding, in tokens of a rank. The difference is small,
// so that the loss usually divides both lengths into the same number of row blocks
// (parallel/tp/vocab_cross_entropy.cpp).
constexpr int64_t fewer_tokens = 128;

// Returns the number of the job's ranks on a node. `prices` has the ranks of one stage. All stages are on one node if
// the job has fewer ranks than a node.
int64_t ranks_of_node(const Recipe& r, const StepPrices& prices) {
  return std::min(r.parallel.pp * std::ssize(prices.node_of_rank()), prices.prices().ranks_per_node());
}

}  // namespace

std::optional<double> tokens_of_loss_block(const Recipe& r, int64_t recorded_tokens, double tokens) {
  const int64_t words = std::max<int64_t>(1, r.model.vocab / r.parallel.tp);
  const auto rows_a_block = [&](double all) {
    return kernels::meta_kernels(r.device).cross_entropy.block_rows(std::llround(all / number(r.parallel.cp)), words);
  };
  if (rows_a_block(number(recorded_tokens)) < recorded_tokens / r.parallel.cp) return {};
  const double block = number(rows_a_block(tokens) * r.parallel.cp);
  return r.parallel.tp > 1 ? block * blocks_of_shared_loss(r) : block;
}

std::shared_ptr<const StepPrices> prices_of_stage(const Recipe& r, const Prices& prices, int64_t world,
                                                  int64_t stages) {
  return std::make_shared<const StepPrices>(prices, nodes_of_stage(r, prices.ranks_per_node(), world, stages));
}

FewLayers::FewLayers(Recipe r, const train::Extensions& extensions, std::shared_ptr<const StepPrices> prices,
                     const std::array<int64_t, 2>& contexts, RoutingLoad load, std::shared_ptr<SharedByRuns> shared)
    : recipe_(std::move(r)),
      extensions_(extensions),
      load_(std::move(load)),
      shared_(shared ? std::move(shared) : std::make_shared<SharedByRuns>()),
      prices_(std::move(prices)),
      record_(std::make_unique<StepRecord>()),
      contention_(prices_->contention(train::priorities_of(recipe_.distributed), ranks_of_node(recipe_, *prices_))),
      contexts_(contexts),
      recorded_contexts_(contexts) {
  recipe_.batch.micro = 1;
  recipe_.parallel.pp = 1;
  recipe_.schedule.pipeline = {};
  StepRecord shorter{};
  StepRecord& longer = *record_;
  for (size_t length = 0; length < 2; ++length) {
    recipe_.model.context = contexts[length];
    const device::MemoryStats stats = run_recorded(length == 0 ? shorter : longer);
    memory_[length] = memory_of(stats), temporary_[length] = temporary_of(stats);
  }
  const auto alike = [](const device::Issue& a, const device::Issue& b) { return a.work.index() == b.work.index(); };
  if (std::ranges::equal(shorter.issues, longer.issues, alike)) {
    for (size_t i = 0; i < longer.issues.size(); ++i)
      if (device::Work& work = shorter.issues[i].work; work != longer.issues[i].work || is_attention(work))
        shorter_.push_back({.operation = i, .work = std::move(work)});
    shorter_.shrink_to_fit();
  } else {
    contexts_[0] = contexts_[1];
  }
  first_ = longer.first_in("forward, micro-batch 0"), second_ = longer.first_in("forward, micro-batch 1");
  const std::vector<bool> update_spans = longer.spans_of_update();
  for (const device::Issue& issue : longer.issues) of_update_.push_back(issue.span >= 0 && update_spans[issue.span]);
  longer.spans = {};
  longer.issues.shrink_to_fit();
  find_equal_operations();
  priced_.emplace(*prices_, longer);
  keep_few_ranks(longer, *prices_);
}

// Finds operations that have the same price as an earlier operation. Most operations have the same sizes as an
// operation of the other micro-batch or of another layer. Pricing each operation would take most of the time of
// times().
void FewLayers::find_equal_operations() {
  const std::vector<device::Issue>& issues = record_->issues;
  std::vector<const device::Work*> shorter(issues.size());
  for (const Shorter& s : shorter_) shorter[s.operation] = &s.work;
  const auto equal = [&](size_t a, size_t b) {
    const device::Issue &x = issues[a], &y = issues[b];
    return x.family == y.family && x.name == y.name && x.lane == y.lane && x.work == y.work &&
           of_update_[a] == of_update_[b] && (shorter[a] != nullptr) == (shorter[b] != nullptr) &&
           (!shorter[a] || *shorter[a] == *shorter[b]);
  };
  std::map<std::string_view, std::vector<int32_t>> by_family;  // operations with different prices
  for (size_t i = 0; i < issues.size(); ++i) {
    std::vector<int32_t>& different = by_family[issues[i].family];
    const auto same = std::ranges::find_if(different, [&](int32_t other) { return equal(i, other); });
    same_price_.push_back(same == different.end() ? static_cast<int32_t>(i) : *same);
    if (same == different.end()) different.push_back(static_cast<int32_t>(i));
  }
}

mesh::Layout FewLayers::layout() const {
  return {recipe_.parallel.sizes(), static_cast<int>(prices_->node_of_rank().size())};
}

int FewLayers::rank_in(const mesh::Layout& layout) const {
  return layout.rank_at(mesh::ExpertPlace{.ep = busiest_rank(load_, layout.size(base::Axis::ep))});
}

// Records a step of the recipe and returns its memory.
device::MemoryStats FewLayers::run_recorded(StepRecord& record) {
  const mesh::Layout all = layout();
  const int rank = rank_in(all);
  RunOnMeta run(recipe_, extensions_, all, rank, load_, RunOnMeta::Record::issues, prices_->node_of_rank(), shared_);
  run.follow_spans();
  // Under ZeRO-3, an additional first step records the order in which weights are used.
  if (recipe_.parallel.zero == 3) run.step(2);
  const auto& memory = run.instance().context.allocator();
  memory->reset_peaks();
  record = record_step(run, 2, rank);
  return memory->stats();
}

// Returns the work of an operation of the record with the sizes for `sequences` sequences of `context` tokens each.
// Returns the recorded work if the work is equal in both steps, or if the shorter length is ignored.
device::Work FewLayers::resized(size_t operation, double sequences, double context) const {
  device::Work sized = record_->issues[operation].work;
  const auto less = std::ranges::lower_bound(shorter_, operation, {}, &Shorter::operation);
  if (less == shorter_.end() || less->operation != operation) return sized;
  const double shorter = number(contexts_[0]), longer = number(contexts_[1]);
  const Line line{(sequences * context - shorter) / (longer - shorter)};
  std::visit(Extend{line, sequences, context / longer}, sized, less->work);
  return sized;
}

FewLayersMemory FewLayers::memory(int64_t sequences, int64_t context) const {
  const double shorter = number(contexts_[0]), longer = number(contexts_[1]), tokens = number(sequences * context);
  FewLayersMemory memory = memory_[1];
  if (longer == shorter) {
    memory.activations *= tokens / longer;
    return memory;
  }
  const Line by_tokens{(tokens - shorter) / (longer - shorter)};
  memory.activations = by_tokens(memory_[0].activations, memory_[1].activations);
  const Line by_length{(number(context) - shorter) /
                       (longer - shorter)};  // rotary tables grow with the sequence length
  memory.weights = by_length(memory_[0].weights, memory_[1].weights);
  return memory;
}

FewLayersTimes FewLayers::times(int64_t sequences, int64_t context, int64_t stages) {
  const StepRecord& record = *record_;
  RecordPrices priced = *priced_;
  priced.shrink_groups(comm::TrafficClass::dp, stages);
  const int64_t larger_update = recipe_.parallel.zero > 0 ? stages : 1;
  std::vector<double> prices(record.issues.size());
  for (size_t i = 0; i < prices.size(); ++i) {
    const size_t same = same_price_[i];
    if (same != i) {
      prices[i] = prices[same];
      continue;
    }
    device::Work sized = resized(i, number(sequences), number(context));
    if (of_update_[i]) std::visit(Enlarge{larger_update}, sized);
    prices[i] = record.issues[i].name == "receive" ? 0 : priced.seconds(record.issues[i], sized);
  }
  if (!simulation_)
    simulation_ = std::make_unique<StepSimulation>(std::span(&record, 1), prices_->node_of_rank(), contention_);
  const SimulatedStep simulated = simulation_->run(
      [&](const StepRecord&, const device::Issue& issue) { return prices[&issue - record.issues.data()]; });
  const std::vector<schedule::Interval>& at = simulated.ranks.front().times;

  FewLayersTimes times;
  times.micro_batch = at[second_].begin - at[first_].begin;
  times.rest = std::max(0.0, simulated.seconds - 2 * times.micro_batch);
  if (contexts_[1] == contexts_[0]) times.micro_batch *= number(sequences * context) / number(contexts_[1]);
  for (size_t i = first_; i < second_; ++i)
    if (const auto* work = std::get_if<device::CommunicationWork>(&record.issues[i].work))
      if (record.groups[work->group].traffic == static_cast<int>(comm::TrafficClass::dp))
        times.dp_traffic += priced.seconds(record.issues[i], resized(i, number(sequences), number(context)));
  return times;
}

double FewLayers::temporary(double tokens) const {
  const double shorter = number(contexts_[0]), longer = number(contexts_[1]);
  if (longer == shorter) return temporary_[1] * tokens / longer;
  return Line{(tokens - shorter) / (longer - shorter)}(temporary_[0], temporary_[1]);
}

double FewLayers::growth_of_layers() const {
  const mesh::Layout all = layout();
  Recipe few_words = recipe_;
  few_words.model.vocab = recipe_.parallel.tp;
  std::array<double, 2> bytes{};
  for (size_t length = 0; length < 2; ++length) {
    few_words.model.context = recorded_contexts_[length];
    RunOnMeta run(few_words, extensions_, all, rank_in(all), load_, RunOnMeta::Record::nothing, {}, shared_);
    run.step(1);
    bytes[length] = temporary_of(run.instance().context.allocator()->stats());
  }
  return std::max(0.0, bytes[1] - bytes[0]) / number(recorded_contexts_[1] - recorded_contexts_[0]);
}

std::array<int64_t, 2> recorded_contexts(const Recipe& r) {
  const int64_t unit = 2 * r.parallel.cp * r.parallel.tp;
  const int64_t longest = std::min(r.model.context, recorded_tokens * r.parallel.cp);
  const int64_t longer = std::max(2 * unit, longest / unit * unit);
  return {longer - std::clamp(fewer_tokens * r.parallel.cp / unit * unit, unit, longer - unit), longer};
}

std::optional<double> micro_batch_of_few_layers(Recipe r, const train::Extensions& extensions, const Prices& prices,
                                                int64_t world, RoutingLoad load, std::shared_ptr<SharedByRuns> shared) {
  if (!r.optim.freeze.empty() || r.schedule.moe.memory_limit) return {};
  r.model.layers = r.model.moe.dense_layers + layers_of_period(r);
  FewLayers few(r, extensions, prices_of_stage(r, prices, world, r.parallel.pp), recorded_contexts(r),
                mean_layer(std::move(load)), std::move(shared));
  if (few.is_proportional()) return {};
  return few.times(r.batch.micro, r.model.context).micro_batch;
}

}  // namespace hexad::plan
