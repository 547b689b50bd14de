#include "tools/plan/step_on_meta.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "framework/base/ordinal.h"
#include "parallel/pp/program_check.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_record.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using namespace layers;

using namespace train;

namespace {

using comm::TrafficClass;
using device::Category;

// Steps of a run whose memory and traffic are measured. Under ZeRO-3, weights are gathered in the order in which the
// previous step used them. Therefore, an equal step runs before a measured step that has another number of
// micro-batches than the previous step.
class MeasuredSteps {
 public:
  MeasuredSteps(RunOnMeta& run, int zero) : run_(run), needs_equal_step_(zero == 3) {}

  // Runs a step that is not measured.
  void prepare(int64_t micro_batches) {
    run_.step(micro_batches);
    take_traffic();
    before_ = micro_batches;
  }

  StepOnMeta measure(int64_t micro_batches) {
    if (needs_equal_step_ && before_ != micro_batches) prepare(micro_batches);
    device::DeviceContext& context = run_.instance().context;
    const auto& memory = context.allocator();
    const auto& offload = context.offload_allocator();
    memory->reset_peaks(), offload->reset_peaks();
    run_.step(micro_batches);
    StepOnMeta out{.memory = memory->stats(), .offloaded = offload->stats().peak_in(Category::offload)};
    out.sent = take_traffic();
    before_ = micro_batches;
    return out;
  }

 private:
  decltype(StepOnMeta::sent) take_traffic() {
    decltype(StepOnMeta::sent) sent{};
    for (int c = 0; c < comm::traffic_class_count; ++c)
      sent[c] = static_cast<double>(run_.world().take(static_cast<TrafficClass>(c)).bytes);
    return sent;
  }

  RunOnMeta& run_;
  const bool needs_equal_step_;
  int64_t before_ = 0;  // micro-batches of the previous step
};

// Returns the memory that the tokens of a micro-batch use before its forward.
device::MemoryStats micro_batch_memory(const Recipe& r, const mesh::Layout& layout, int rank) {
  device::DeviceContext context(
      {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(r.device)});
  const TwoDocuments source(r.model.context);
  const MicroBatch batch = make_micro_batch(source.batch(0, r.batch.micro), 0, r.batch.micro, context,
                                            {layout.size(base::Axis::cp), layout.coordinate(base::Axis::cp, rank)},
                                            r.model.prediction_blocks, r.model.attention_chunk);
  return context.allocator()->stats();
}

// Adds the memory of the tokens of `all` - `few` micro-batches to `step`, a step that runs only `few` micro-batches.
// During the passes, the tokens of the whole step are in memory. On GPUs, the host also loads the tokens of the next
// step. It does so after the update, when all other temporary tensors are freed.
void add_tokens(device::MemoryStats& step, const device::MemoryStats& micro_batch, int64_t few, int64_t all,
                bool loads_ahead) {
  const auto add = [&](int64_t& peak, int64_t after_step, int64_t tokens) {
    peak += (all - few) * tokens;
    // After the step, the tokens of `few` micro-batches of the next step are in memory.
    if (loads_ahead) peak = std::max(peak, after_step + (2 * all - few) * tokens);
  };
  const size_t kept = base::ordinal(Category::activation);
  add(step.peak[kept], step.used_in(Category::activation), micro_batch.total);
  add(step.peak_total, step.total, micro_batch.total);
  add(step.peak_held, step.held, micro_batch.held);
}

// True if the pipeline keeps the same number of activations in flight with `few` micro-batches as with `all`.
bool stands_for_all(const Recipe& r, const mesh::Layout& layout, int64_t few, int64_t all) {
  const auto in_flight = [&](int64_t micro_batches) {
    return pp::peak_activations(
        pp::make_schedule(pipeline_of(r), layout.size(base::Axis::pp), static_cast<int>(micro_batches)));
  };
  return in_flight(few) == in_flight(all);
}

// True if each rank of the pipeline repeats one forward and one backward, and if the passes of all micro-batches are
// equal. The memory of a rank then repeats with each micro-batch.
bool repeats_one_micro_batch(const Recipe& r, const RoutingLoad& load) {
  const pp::PipelineKind kind = pipeline_of(r).kind;
  const bool one_by_one = kind == pp::PipelineKind::one_f_one_b || kind == pp::PipelineKind::zb_h1;
  return r.parallel.pp > 1 && one_by_one && has_equal_passes(r, load);
}

// Returns the number of micro-batches in flight on a rank. Requires repeats_one_micro_batch().
int64_t in_flight_on(int rank, const Recipe& r, const mesh::Layout& layout, int64_t all) {
  const int stages = layout.size(base::Axis::pp);
  const auto enough = static_cast<int>(std::min<int64_t>(all, 2 * stages));
  return pp::peak_activations(
      pp::make_schedule(pipeline_of(r), stages, enough))[layout.coordinate(base::Axis::pp, rank)];
}

// Extrapolates linearly: replaces `more` by less + (more - less) * times.
void extend(double& more, double less, double times) { more = less + (more - less) * times; }
void extend(int64_t& more, int64_t less, double times) {
  more = less + std::llround(static_cast<double>(more - less) * times);
}
template <class Numbers>
void extend_all(Numbers& more, const Numbers& less, double times) {
  for (size_t i = 0; i < more.size(); ++i) extend(more[i], less[i], times);
}

int64_t tokens_of(const Recipe& r) { return r.batch.micro * r.model.context; }

// Returns the bytes of sent output that the rank holds for each micro-batch. Assumes that the next stage is late, and
// that all micro-batches are in flight at the same time. Returns 0 on the last stage, and if no host threads send.
int64_t sent_bytes(const Recipe& r, const mesh::Layout& layout, int rank) {
  const bool last = layout.coordinate(base::Axis::pp, rank) + 1 == layout.size(base::Axis::pp);
  if (last || freeing_of(r, layout.world()) == pp::Freeing::early) return 0;
  const int64_t rows = tokens_of(r) / r.parallel.cp / (r.parallel.sp ? r.parallel.tp : 1);
  return rows * r.model.hidden * base::size_of(dtype_of(r.train.precision));
}

// True if the peak of memory grows at least by the tensors kept for backward plus `sent` bytes of sent tensors. The
// peak then stays at the same moment of the step.
bool grows_steadily(const device::MemoryStats& few, const device::MemoryStats& more, int64_t sent) {
  const int64_t kept = more.peak_in(Category::activation) - few.peak_in(Category::activation) + sent;
  return more.peak_total - few.peak_total >= kept && more.peak_held - few.peak_held >= kept;
}

// Extrapolates each number of a step linearly: replaces `more` by less + (more - less) * times.
void extend(StepOnMeta& more, const StepOnMeta& less, double times) {
  extend_all(more.memory.peak, less.memory.peak, times);
  extend(more.memory.peak_total, less.memory.peak_total, times);
  extend(more.memory.peak_held, less.memory.peak_held, times);
  extend(more.offloaded, less.offloaded, times);
  extend_all(more.sent, less.sent, times);
}

// Returns the step of a pipeline whose micro-batches are all in flight at the same time. For each micro-batch, the rank
// holds sent tensors of `sent` bytes.
StepOnMeta grown_step(MeasuredSteps& steps, int64_t few, int64_t all, int64_t sent) {
  StepOnMeta shorter = steps.measure(few);
  for (; 2 * few < all; few *= 2) {
    StepOnMeta step = steps.measure(2 * few);
    if (!grows_steadily(shorter.memory, step.memory, few * sent)) {
      shorter = step;
      continue;
    }
    extend(step, shorter, static_cast<double>(all - few) / static_cast<double>(few));
    return step;
  }
  return steps.measure(all);
}

// Largest number of tokens of a micro-batch that is run without extrapolation. The number is limited, because tokens
// use host memory.
constexpr int64_t max_tokens = 1 << 18;

// Returns the recipe with about `tokens` tokens in each micro-batch, and the same number of micro-batches.
Recipe with_tokens(Recipe r, int64_t tokens) {
  const int64_t micro_batches = r.batch.global / r.batch.micro;
  r.batch.micro = std::clamp<int64_t>(tokens / r.model.context, 1, r.batch.micro);
  r.batch.global = micro_batches * r.batch.micro;
  const int64_t unit = 2 * r.parallel.cp * r.parallel.tp;
  if (tokens_of(r) > tokens) r.model.context = std::max<int64_t>(1, tokens / unit) * unit;
  return r;
}

// Numbers of micro-batches of two steps that run instead of a whole step. The step with `few` gives the memory. Traffic
// is extrapolated from both steps. Under gpipe, grown_step() measures other steps, of which the first has `fewer`.
struct FewMicroBatches {
  int64_t fewer, few;
};

// Returns a number of micro-batches after which the actions of every rank repeat.
int64_t repeated_unit(const Recipe& r) {
  return (pipeline_of(r).kind == pp::PipelineKind::gpipe ? 2 : r.parallel.pp) *
         (r.schedule.pipeline.overlap == pp::Overlap::micro_batches ? 2 : 1);
}

// True if a step of the rank with more than `few` micro-batches would have no more sums of the embedding's gradients in
// flight. With `few`, the step must also have another sum beside them. Also true under gpipe, where the number of these
// sums grows with the number of micro-batches.
bool has_all_sums_in_flight(const Recipe& r, const mesh::Layout& layout, int rank, int64_t few) {
  const pp::PipelineConfig pipeline = pipeline_of(r);
  if (pipeline.kind == pp::PipelineKind::gpipe) return true;
  const pp::Schedule schedule = pp::make_schedule(pipeline, layout.size(base::Axis::pp), static_cast<int>(few));
  const bool merge = pipeline.overlap == pp::Overlap::micro_batches;
  return few >= pp::sums_in_flight(schedule, merge, layout.coordinate(base::Axis::pp, rank)) + 2;
}

FewMicroBatches few_micro_batches(const Recipe& r, const mesh::Layout& layout, int rank, const RoutingLoad& load) {
  const int64_t all = micro_batches_of(r, layout), unit = repeated_unit(r);
  const pp::PipelineKind kind = pipeline_of(r).kind;
  if (repeats_one_micro_batch(r, load)) {
    // Under ZB-H1, every rank may hold sent tensors of nearly as many micro-batches as there are stages.
    const bool by_stages = kind == pp::PipelineKind::zb_h1 && freeing_of(r, layout.world()) == pp::Freeing::latest;
    const int64_t enough = by_stages ? r.parallel.pp + 1 : in_flight_on(rank, r, layout, all);
    return {enough, enough + 2};
  }
  // Under ZeRO-3, earlier uses of a weight determine whether it is gathered, even across micro-batches. Under ZeRO-2,
  // the first sum of a bucket goes directly to the owned piece, and later sums need additional memory. The third
  // micro-batch is the first that runs beside such a sum of an earlier micro-batch. With several virtual stages on each
  // rank, the numbers of posted receives and of sent tensors repeat only after two periods.
  const bool virtual_stages =
      kind == pp::PipelineKind::interleaved || kind == pp::PipelineKind::zb_v || kind == pp::PipelineKind::dualpipe_v;
  const int64_t fewer = r.parallel.zero == 3 || virtual_stages ? 2 * unit
                        : r.parallel.zero == 2                 ? std::max<int64_t>(2, unit)
                                                               : unit;
  int64_t few = fewer + unit + all % unit;
  if (reduces_on_two_stages(r))
    while (few < all && !has_all_sums_in_flight(r, layout, rank, few)) few += unit;
  return {fewer, few};
}

// Runs the measured steps and returns their result. Before the measured steps, runs a step of at most `first`
// micro-batches that is not measured.
StepOnMeta run_steps(RunOnMeta& run, int64_t first, const Recipe& recipe, const mesh::Layout& layout, int rank,
                     const RoutingLoad& load, Wanted wanted) {
  const int64_t all = micro_batches_of(recipe, layout);
  const bool all_at_once = pipeline_of(recipe).kind == pp::PipelineKind::gpipe;
  const bool repeats = repeats_one_micro_batch(recipe, load);
  const auto [fewer, few] = few_micro_batches(recipe, layout, rank, load);
  MeasuredSteps steps(run, recipe.parallel.zero);
  steps.prepare(std::min({all, few, first}));
  if (few >= all) return steps.measure(all);
  if (all_at_once) {
    // A rank whose peers are prompt holds no sent tensors.
    const int64_t sent = wanted == Wanted::least_memory ? 0 : sent_bytes(recipe, layout, rank);
    return grown_step(steps, fewer, all, sent);
  }
  if (!repeats && !stands_for_all(recipe, layout, few, all)) return steps.measure(all);

  StepOnMeta step = steps.measure(few);
  add_tokens(step.memory, micro_batch_memory(recipe, layout, rank), few, all, recipe.device != device::DeviceKind::cpu);
  if (wanted != Wanted::all) return step;

  const StepOnMeta shorter = steps.measure(fewer);
  extend_all(step.sent, shorter.sent, static_cast<double>(all - fewer) / static_cast<double>(few - fewer));
  return step;
}

StepOnMeta run_step(const Recipe& recipe, const Extensions& extensions, const mesh::Layout& layout, int rank,
                    const RoutingLoad& load, Wanted wanted, const std::shared_ptr<SharedByRuns>& shared) {
  using Record = RunOnMeta::Record;
  const auto peers = wanted == Wanted::least_memory ? comm::ImaginedPeers::prompt : comm::ImaginedPeers::late;
  // Repeats layers only under ZeRO-0 and ZeRO-1. Otherwise, a repeated layer may allocate the memory of a bucket of
  // gradients later than a layer that runs.
  if (wanted != Wanted::all && recipe.parallel.zero <= 1 && can_repeat_layers(recipe, load)) {
    RunOnMeta run(recipe, extensions, layout, rank, load, Record::parts, {}, shared, peers);
    run.repeat_layers();
    // The first and the second micro-batch of the first step record layers.
    const StepOnMeta step = run_steps(run, 2, recipe, layout, rank, load, wanted);
    if (!run.failed()) return step;
  }
  // The first step creates buffers. One micro-batch creates all buffers if all passes are equal. Under ZeRO-3, the
  // first step also records the order in which weights are used, and has as many micro-batches as a measured step.
  const int64_t first = recipe.parallel.zero == 3        ? few_micro_batches(recipe, layout, rank, load).few
                        : has_equal_passes(recipe, load) ? 1
                                                         : repeated_unit(recipe);
  RunOnMeta run(recipe, extensions, layout, rank, load, Record::nothing, {}, shared, peers);
  return run_steps(run, first, recipe, layout, rank, load, wanted);
}

StepOnMeta run_evaluation(const Recipe& recipe, const Extensions& extensions, const mesh::Layout& layout, int rank) {
  const auto run = std::make_shared<device::MetaRun>(
      recipe.device, choose_experts(RoutingLoad::even, layout.coordinate(base::Axis::ep, rank),
                                    layout.size(base::Axis::ep), recipe.model.moe.capacity_factor));
  const comm::ImaginedGroup world(rank, layout.world(), nullptr, {}, imagined_cards(recipe, layout.world()));
  ModelInstance instance(recipe, extensions, world, {}, run);
  instance.freeing = freeing_of(recipe, layout.world());
  const int64_t enough = 16 * layout.size(base::Axis::pp);  // more micro-batches than are in flight on a rank
  evaluate(instance, recipe, TwoDocuments(recipe.model.context),
           enough * recipe.batch.micro * layout.size(base::Axis::dp), {});
  return {.memory = instance.context.allocator()->stats()};
}

// Runs the recipe. Runs the recipe with two smaller sizes of micro-batches, and extrapolates, if its micro-batches have
// too many tokens.
StepOnMeta for_tokens(const Recipe& recipe, const std::function<StepOnMeta(const Recipe&)>& run) {
  if (runs_whole_micro_batches(recipe)) return run(recipe);
  const Recipe smaller = with_tokens(recipe, max_tokens / 2), small = with_tokens(recipe, max_tokens);
  const StepOnMeta less = run(smaller);
  StepOnMeta more = run(small);
  extend(more, less,
         static_cast<double>(tokens_of(recipe) - tokens_of(smaller)) /
             static_cast<double>(tokens_of(small) - tokens_of(smaller)));
  return more;
}

}  // namespace

bool runs_whole_micro_batches(const Recipe& recipe) { return tokens_of(recipe) <= max_tokens; }

std::optional<int64_t> micro_batches_in_memory(const Recipe& r, const mesh::Layout& layout, const RoutingLoad& load) {
  if (pipeline_of(r).kind == pp::PipelineKind::gpipe) return {};
  const int64_t all = micro_batches_of(r, layout);
  if (repeats_one_micro_batch(r, load)) return std::min(all, 2 * r.parallel.pp);
  const int64_t few = few_micro_batches(r, layout, 0, load).few;
  return few >= all || !stands_for_all(r, layout, few, all) ? all : few;
}

std::vector<std::vector<int>> distinct_ranks(const Recipe& r, const mesh::Layout& layout, RoutingLoad load) {
  const moe::MoeConfig& moe = r.model.moe;
  const bool by_ep = moe.experts > 0 &&
                     (load == RoutingLoad::given || (load == RoutingLoad::even && moe.routing != moe::Routing::model));
  const size_t of_stage = by_ep ? static_cast<size_t>(layout.size(base::Axis::ep)) : 1;
  std::vector<std::vector<int>> stages(layout.size(base::Axis::pp), std::vector<int>(of_stage, -1));
  // All stages have ranks at the same coordinates, so comparing the ranks of the first stage is sufficient.
  const auto lastness = [&](int rank) {
    return layout.coordinate(base::Axis::tp, rank) + layout.coordinate(base::Axis::etp, rank);
  };
  for (int ep = 0; ep < layout.size(base::Axis::ep); ++ep)
    for (int edp = 0; edp < layout.size(base::Axis::edp); ++edp)
      for (int etp = 0; etp < layout.size(base::Axis::etp); ++etp) {
        const int rank = layout.rank_at(mesh::ExpertPlace{.edp = edp, .ep = ep, .etp = etp});
        int& last = stages[0][by_ep ? ep : 0];
        if (last < 0 || std::pair(lastness(last), rank) < std::pair(lastness(rank), last)) last = rank;
      }
  for (size_t slot = 0; slot < of_stage; ++slot) {
    const std::vector<int> ranks = layout.members(base::Axis::pp, stages[0][slot]);
    for (size_t stage = 0; stage < stages.size(); ++stage) stages[stage][slot] = ranks[stage];
  }
  return stages;
}

StepOnMeta step_on_meta(const Recipe& recipe, const Extensions& extensions, const mesh::Layout& layout, int rank,
                        const RoutingLoad& load, Wanted wanted, const std::shared_ptr<SharedByRuns>& shared) {
  return for_tokens(with_stage_split(recipe, extensions),
                    [&](const Recipe& r) { return run_step(r, extensions, layout, rank, load, wanted, shared); });
}

device::MemoryStats evaluation_on_meta(const Recipe& recipe, const Extensions& extensions, const mesh::Layout& layout,
                                       int rank) {
  return for_tokens(with_stage_split(recipe, extensions),
                    [&](const Recipe& r) { return run_evaluation(r, extensions, layout, rank); })
      .memory;
}

}  // namespace hexad::plan
