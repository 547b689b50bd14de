#include "tools/plan/step_forecast.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/ordinal.h"
#include "layers/model_size.h"
#include "tools/plan/run_on_meta.h"
#include "tools/train/recipe/stages.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::plan {
namespace {

using train::Recipe;

// Throws Error(usage) if a micro-batch has too many tokens. The tokens of recorded micro-batches use host memory.
void require_few_tokens(const Recipe& r) {
  if (const int64_t tokens = r.batch.micro * r.model.context; tokens > max_micro_batch_tokens)
    base::fail(base::ExitCode::usage, "model.context (", r.model.context, ") x batch.micro (", r.batch.micro, ") is ",
               tokens, " tokens; expected at most ", max_micro_batch_tokens, " tokens for a predicted step");
}

// Seconds of a stage's operations, each alone on the machine. The operations of a lane run one after the other, and so
// do the collectives of a group. Messages between two ranks are not counted.
struct SumsOfStage {
  std::array<double, device::lane_count> lanes{};  // kernels and copies
  std::vector<double> groups;                      // collectives

  void add(const device::Issue& issue, double seconds) {
    const auto* work = std::get_if<device::CommunicationWork>(&issue.work);
    if (!work)
      lanes[base::ordinal(issue.lane)] += seconds;
    else if (work->peer < 0)
      groups[work->group] += seconds;
  }
};

StepForecast simulate_part(const RecordedStep::Part& part, const Recipe& recipe, const StepPrices& prices) {
  StepForecast forecast{.stages = {}, .simulated_micro_batches = part.micro_batches, .records = {}, .simulated = {}};
  std::vector<RecordPrices> priced;
  for (const StepRecord& record : part.stages) priced.emplace_back(prices, record);
  for (const RecordPrices& p : priced)
    for (std::string& group : p.uneven_groups()) forecast.uneven_groups.insert(std::move(group));
  std::vector<SumsOfStage> sums;
  for (const StepRecord& record : part.stages)
    sums.push_back({.lanes = {}, .groups = std::vector<double>(record.groups.size())});
  forecast.simulated = simulate_step(
      part.stages, prices.node_of_rank(),
      [&](const StepRecord& record, const device::Issue& issue) {
        const auto stage = &record - part.stages.data();
        const double seconds = priced[stage].seconds(issue);
        sums[stage].add(issue, seconds);
        return seconds;
      },
      prices.contention(train::priorities_of(recipe.distributed), prices.ranks_of_fullest_node()));
  forecast.seconds = forecast.simulated.seconds;
  for (size_t s = 0; s < part.stages.size(); ++s) {
    const SimulatedRank& rank = forecast.simulated.ranks[s];
    StepForecast::Stage stage{.rank = rank.rank, .busy = rank.busy, .idle = rank.idle, .exposed = rank.exposed};
    stage.work = std::ranges::max(sums[s].lanes);
    for (const double seconds : sums[s].groups) stage.collectives = std::max(stage.collectives, seconds);
    const StepRecord& record = part.stages[s];
    const std::vector<bool> of_update = record.spans_of_update();
    for (size_t i = 0; i < record.issues.size(); ++i)
      if (const device::Issue& issue = record.issues[i];
          !issue.communicates() && issue.span >= 0 && of_update[issue.span])
        stage.update += rank.times[i].end - rank.times[i].begin;
    for (const device::Issue& issue : part.stages[s].issues)
      if (const auto* work = std::get_if<device::CommunicationWork>(&issue.work)) {
        stage.sent[part.stages[s].groups[work->group].traffic] += static_cast<double>(work->sent);
        stage.network += priced[s].sent_over_network(issue);
      }
    forecast.stages.push_back(stage);
  }
  return forecast;
}

// Returns the number of micro-batches that fill the pipeline, plus a few. The first micro-batches run while the
// pipeline is still filling. Twice as many forwards run ahead if virtual stages form a V, or if micro-batches overlap
// in pairs.
int64_t filling_micro_batches(const Recipe& r) {
  const pp::PipelineConfig pipeline = train::pipeline_of(r);
  const bool far_ahead = pipeline.placing() == pp::Placing::vee || pipeline.overlap == pp::Overlap::micro_batches;
  return far_ahead ? 2 * r.parallel.pp + 2 : r.parallel.pp + std::min<int64_t>(r.parallel.pp, 2);
}

// Returns a lower bound of the time of an extrapolated step, the larger of two times: the stage's time without idle
// time, and the collectives of the stage's busiest group. The extrapolated exposed communication may be below zero. The
// reason is that each additional micro-batch hides more of a communication that does not recur, such as the gathers at
// the beginning. This communication also slows kernels. The bound then assumes kernels that run alone, or `busy` if
// `busy` is less.
double work_of(const StepForecast::Stage& stage) {
  double exposed = 0;
  for (const double seconds : stage.exposed) exposed += seconds;
  const double own = exposed >= 0 ? stage.busy + exposed : std::min(stage.busy, stage.work);
  return std::max(own, stage.collectives);
}

// Raises the time of an extrapolated step to the work of its busiest stage. Scales the parts of each stage's time so
// that they add up to the raised time. Extrapolation of the short steps may give a shorter time, because their stages
// still wait for the pipeline to fill.
void bound_by_work(StepForecast& step) {
  for (const StepForecast::Stage& stage : step.stages) step.seconds = std::max(step.seconds, work_of(stage));
  for (StepForecast::Stage& stage : step.stages) {
    stage.busy = std::min(stage.busy, step.seconds);
    double parts = stage.idle = std::max(0.0, stage.idle);
    for (double& exposed : stage.exposed) parts += exposed = std::max(0.0, exposed);
    const double rest = step.seconds - stage.busy;
    if (parts > 0) {
      stage.idle *= rest / parts;
      for (double& exposed : stage.exposed) exposed *= rest / parts;
    } else {
      stage.idle = rest;
    }
  }
}

// Replaces the values in `longer` by values of the whole step, extrapolated from both parts.
void extrapolate(StepForecast& longer, const StepForecast& shorter, const RecordedStep& step) {
  const auto whole = [&](double& of_longer, double of_shorter) { of_longer = step.whole(of_longer, of_shorter); };
  whole(longer.seconds, shorter.seconds);
  for (size_t s = 0; s < longer.stages.size(); ++s) {
    StepForecast::Stage& stage = longer.stages[s];
    const StepForecast::Stage& before = shorter.stages[s];
    whole(stage.busy, before.busy);
    whole(stage.idle, before.idle);
    whole(stage.update, before.update);
    whole(stage.work, before.work);
    whole(stage.collectives, before.collectives);
    whole(stage.network, before.network);
    for (size_t c = 0; c < stage.exposed.size(); ++c) {
      whole(stage.exposed[c], before.exposed[c]);
      whole(stage.sent[c], before.sent[c]);
    }
  }
  bound_by_work(longer);
}

}  // namespace

double RecordedStep::whole(double of_longer, double of_shorter) const {
  if (!shorter) return of_longer;
  const auto [few, fewer] = std::pair(longer.micro_batches, shorter->micro_batches);
  const double times = static_cast<double>(micro_batches - fewer) / static_cast<double>(few - fewer);
  return of_shorter + (of_longer - of_shorter) * times;
}

namespace {

// Returns the peak rate of each of `ranks` ranks, in FLOP/s. Takes into account that the ranks of a node share its
// cores.
double peak_of_rank(base::Dtype dtype, const Prices& prices, int64_t ranks) {
  const std::optional<schedule::SharedCores> cores = prices.cores(std::min(ranks, prices.ranks_per_node()));
  return prices.peak(dtype) * (cores ? cores->speed(cores->threads, cores->threads) : 1);
}

}  // namespace

std::vector<std::string> assumptions(const Cluster& cluster, const std::set<std::string>& uneven_groups) {
  std::vector<std::string> texts = assumptions(cluster);
  if (!uneven_groups.empty())
    texts.push_back(
        fmt::format("groups with different numbers of ranks on their nodes, {}: as if each rank were alone on a node",
                    fmt::join(uneven_groups, ", ")));
  return texts;
}

Throughput throughput(double step_seconds, const Recipe& recipe, const train::Extensions& extensions,
                      const Prices& prices, int64_t ranks) {
  const double tokens = static_cast<double>(recipe.batch.global * recipe.model.context) / step_seconds;
  return {.tokens_per_second = tokens,
          .model_flops_per_second = tokens * layers::model_size(recipe.model, extensions).flops_per_token,
          .peak_flops_per_second =
              static_cast<double>(ranks) * peak_of_rank(train::dtype_of(recipe.train.precision), prices, ranks)};
}

RecordedStep record_for_forecast(const Recipe& r, const train::Extensions& extensions, const mesh::Layout& layout,
                                 const StepPrices& prices, RoutingLoad load, std::shared_ptr<SharedByRuns> shared) {
  require_few_tokens(r);
  if (!shared) shared = std::make_shared<SharedByRuns>();
  const Recipe recipe = shared->divided(r, extensions);
  const int64_t all = micro_batches_of(recipe, layout), unit = repeated_micro_batches(recipe);
  const auto rounded = [&](int64_t n) { return (n + unit - 1) / unit * unit; };
  // Stages wait for messages once in every pp micro-batches. Therefore, the two steps differ by at least pp
  // micro-batches, rounded up to whole repetitions of the pipeline's action list.
  const int64_t fewer = rounded(filling_micro_batches(recipe)) + all % unit, few = fewer + rounded(recipe.parallel.pp);
  std::vector<int64_t> recorded{std::min(few, all)};
  if (few < all) recorded.push_back(fewer);
  RecordedStep step{.micro_batches = all, .longer = {.micro_batches = recorded.front(), .stages = {}}, .shorter = {}};
  if (few < all) step.shorter = {.micro_batches = fewer, .stages = {}};
  const int ep = layout.size(base::Axis::ep);
  const mesh::ExpertPlace first{.ep = busiest_rank(load, ep)};
  const RoutingLoad slowest = with_stragglers(std::move(load), ep);
  for (const int rank : layout.members(base::Axis::pp, layout.rank_at(first))) {
    std::vector<StepRecord> records =
        record_steps(recipe, extensions, layout, rank, slowest, recorded, prices.node_of_rank(), shared);
    step.longer.stages.push_back(std::move(records.front()));
    if (step.shorter) step.shorter->stages.push_back(std::move(records.back()));
  }
  return step;
}

StepForecast simulate_recorded(const RecordedStep& step, const Recipe& recipe, const StepPrices& prices) {
  StepForecast forecast = simulate_part(step.longer, recipe, prices);
  if (step.shorter) extrapolate(forecast, simulate_part(*step.shorter, recipe, prices), step);
  forecast.micro_batches = step.micro_batches;
  return forecast;
}

StepForecast forecast_step(const Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                           const StepPrices& prices, RoutingLoad load, std::shared_ptr<SharedByRuns> shared) {
  RecordedStep step = record_for_forecast(recipe, extensions, layout, prices, std::move(load), std::move(shared));
  StepForecast forecast = simulate_recorded(step, recipe, prices);
  forecast.records = std::move(step.longer.stages);
  return forecast;
}

}  // namespace hexad::plan
