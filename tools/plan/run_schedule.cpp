#include "tools/plan/run_schedule.h"

#include <numeric>
#include <utility>

#include <fmt/ranges.h>

#include "framework/base/units.h"
#include "tools/plan/advice_verdicts.h"
#include "tools/plan/cluster.h"
#include "tools/plan/memory_report.h"
#include "tools/plan/within_memory.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::plan {

using namespace base;

using namespace train;

namespace {

// Returns, for each layer, the share of the layer's assignments that each expert gets. Omits layers without
// assignments.
ExpertShares shares_of(const std::vector<layers::RouterStatistics>& routers) {
  ExpertShares shares;
  for (const layers::RouterStatistics& r : routers) {
    const double sum = static_cast<double>(std::accumulate(r.counts.begin(), r.counts.end(), int64_t{0}));
    if (sum == 0) continue;
    std::vector<double>& layer = shares.emplace_back();
    for (const int64_t count : r.counts) layer.push_back(static_cast<double>(count) / sum);
  }
  return shares;
}

bool leaves_open(const Recipe& recipe) { return recipe.model.moe.experts > 0 && recipe.schedule.moe.open(); }

}  // namespace

bool needs_predictions(const Recipe& recipe) { return recipe.schedule.trace > 0 || leaves_open(recipe); }

void require_profile(const Recipe& recipe) {
  if (recipe.schedule.profile.empty()) return;
  for (int64_t stage = 0; stage < stage_count(recipe); ++stage)
    if (needs_predictions(with_stage(recipe, stage))) load_cluster(recipe.schedule.profile);
}

std::unique_ptr<ScheduleAdviser> RunSchedule::make(const AdvisedRun& run) { return std::make_unique<RunSchedule>(run); }

RunSchedule::RunSchedule(const AdvisedRun& run) : run_(run), first_step_(run.progress.step) {
  const Recipe& recipe = run_.recipe;
  if (needs_predictions(recipe)) {
    predictor_.emplace(recipe, run_.instance.mesh);
    for (const std::string& text : predictor_->assumed_rates)
      if (leader()) run_.log.warn(cat("schedule.profile: ", text));
  }
  if (leaves_open(recipe)) choose();
  if (!leader() || !recipe.schedule.moe.memory_reuse) return;
  const MemoryReport memory(recipe, run_.instance.extensions, run_.world.size());
  if (const std::string why = memory.problem(); !why.empty()) run_.log.warn(why);
}

void RunSchedule::begin_step(int64_t step) {
  const bool traced = step == run_.recipe.schedule.trace;
  // The first step of a run allocates memory, so its times are not representative.
  trial_ = !traced && choice_ && !choice_->made() && step > first_step_ + 1;
  if (trial_) choice_->begin_trial();
  if (!traced && !trial_) return;
  run_.instance.weights.complete(run_.instance.context.compute());  // so that measured passes do not wait for weights
  recorder_.emplace(run_.instance);
}

void RunSchedule::end_step(const StepResult& result, telemetry::StepMetrics& metrics) {
  if (metrics.step == run_.recipe.schedule.trace) trace(metrics);
  const int64_t every = run_.recipe.schedule.moe.redecide_every;
  if (trial_)
    end_trial();
  else if (choice_ && choice_->made() && every > 0 && metrics.step % every == 0)
    redecide(metrics.step, result);
  recorder_.reset();
  metrics.choice = std::exchange(compared_, {});
}

void RunSchedule::add_to(telemetry::ReportInputs& report, const std::map<std::string, int64_t>& measured) const {
  const moe::MoeSchedule schedule = choice_ ? choice_->current().schedule : run_.recipe.schedule.moe.settled();
  report.environment.push_back(
      {"Memory of the rank that needs the most: estimated (measured)",
       memory_comparison(with_schedule(run_.recipe, schedule), run_.instance.extensions, run_.world.size(), measured)});
  report.timelines = timelines_;
}

void RunSchedule::choose() {
  choice_.emplace(run_.recipe, run_.instance, *predictor_, run_.world.group());
  const std::string before = std::exchange(run_.progress.schedule, {});
  const bool resumed = choice_->resume(before, run_.progress.schedule_choice);
  remember_choice();
  if (!resumed && choice_->made()) ask_advisers();
  if (!leader()) return;
  if (run_.recipe.schedule.profile.empty())
    run_.log.warn(
        "schedule.moe: the choice is based on predictions for a default machine, because schedule.profile is not set; "
        "set it to a file that `hexad profile` wrote");
  else
    warn_of_assumed("schedule.moe", assumed_links(choice_->candidates()));
  if (resumed && choice_->made())
    return run_.log.info("schedule.moe: keeps the earlier choice: {}", ScheduleChoice::to_string(choice_->current()));
  if (resumed)
    return run_.log.info("schedule.moe: continues to choose, with at most {} more trial steps", choice_->trials_left());
  if (!before.empty())
    run_.log.warn(cat("schedule.moe: the recipe no longer allows the schedule that the run had chosen: ", before,
                      "; the run chooses another schedule"));
  if (!run_.recipe.schedule.moe.memory_reuse) log_memory();
  const auto& all = choice_->candidates();
  run_.log.info("schedule.moe: predicted fastest of {} schedules: {}; predicted slowest: {}", all.size(),
                ScheduleChoice::to_string(all.front()), ScheduleChoice::to_string(all.back()));
  if (choice_->made()) return log_untried();
  run_.log.info("schedule.moe: at most {} of the next steps try the fastest schedules", choice_->trials_left());
}

void RunSchedule::log_memory() {
  const auto limit = static_cast<double>(run_.recipe.memory.limit());
  const WithinMemory& m = choice_->memory();
  const std::string text = fmt::format(
      "schedule.moe.memory_reuse: a rank is estimated to need at most {} with memory_reuse: none, and at most {} with "
      "the schedule that needs the least memory, under any routing",
      human_bytes(m.kept), human_bytes(m.least));
  if (limit > 0 && m.least > limit)
    return run_.log.warn(text + "; even " + human_bytes(m.least) + " is above memory.limit_bytes (" +
                         human_bytes(limit) + "); raise the limit, or set a smaller batch.micro");
  run_.log.info("{}; memory.limit_bytes is {}", text, run_.recipe.memory.limit_text());
}

// Logs the strategies of memory_reuse that the choice excluded by predictions alone.
void RunSchedule::log_untried() {
  std::vector<std::string_view> names;
  for (const moe::ReuseStrategy strategy : choice_->untried()) names.push_back(enum_name(strategy));
  if (names.empty()) return;
  run_.log.info(
      "schedule.moe.memory_reuse: not tried, and excluded by predictions alone: {}; more trial steps may include more "
      "strategies: raise schedule.moe.trial_share (now {}) or train.steps (now {})",
      fmt::join(names, ", "), run_.recipe.schedule.moe.trial_share, run_.recipe.train.steps);
}

void RunSchedule::remember_choice() {
  if (choice_->made()) run_.progress.schedule = moe::to_string(choice_->current().schedule);
  run_.progress.schedule_choice = choice_->state();
}

void RunSchedule::end_trial() {
  const bool searched = choice_->searching();
  choice_->end_trial(recorder_->layers());
  remember_choice();
  if (choice_->made()) ask_advisers();
  if (!leader()) return;
  if (choice_->searching() && !searched)
    run_.log.info(
        "schedule.moe: at most {} more steps try other numbers of chunks in the fastest schedule (MPMoE's Algorithm 1)",
        choice_->trials_left());
  if (!choice_->made()) return;
  for (const ScheduleCandidate& c : choice_->candidates())
    if (!c.measured.empty()) run_.log.info("schedule.moe: tried {}", ScheduleChoice::to_string(c));
  log_untried();
  run_.log.info("schedule.moe: chosen {}", ScheduleChoice::to_string(choice_->current()));
}

void RunSchedule::redecide(int64_t step, const StepResult& result) {
  const auto outcome = choice_->redecide(step, shares_of(result.routers));
  if (!outcome) return;
  remember_choice();
  if (outcome->switched) compared_ = telemetry::ChoiceMetrics{.schedule = outcome->fastest};
  if (!leader()) return;
  const std::string load = fmt::format(
      "schedule.moe: re-decision of step {}: the busiest ep rank has {:.2f} times the "
      "mean rows",
      step, outcome->imbalance);
  if (!outcome->switched)
    return run_.log.info("{}; keeps the schedule, because the fastest schedule is predicted to be only {:.1f}% faster",
                         load, 100 * outcome->gain);
  run_.log.info("{}; chosen {}, which is predicted to be {:.1f}% faster than {}; {}", load, outcome->fastest,
                100 * outcome->gain, outcome->from,
                outcome->same_bits ? "the switch keeps results bitwise identical"
                                   : "after the switch, results agree with the earlier schedule's results only up to "
                                     "rounding");
}

void RunSchedule::ask_advisers() {
  if (run_.recipe.schedule.profile.empty()) {
    compared_ = telemetry::ChoiceMetrics{.schedule = moe::to_string(choice_->current().schedule),
                                         .measured_seconds = choice_->current().measured_seconds()};
    return;
  }
  compared_ = compare_advice(run_.recipe, run_.instance, *predictor_, run_.world.group(), *choice_);
  if (!leader()) return;
  for (const telemetry::AdviceMetrics& advice : compared_->advice)
    run_.log.info("schedule.moe: adviser {}", to_string(advice));
}

void RunSchedule::warn_of_assumed(std::string_view key, std::vector<std::string> links) {
  std::erase_if(links, [&](const std::string& link) { return !named_links_.insert(link).second; });
  if (!links.empty()) run_.log.warn(cat(key, ": ", text_of_assumed(run_.recipe.schedule.profile, links)));
}

void RunSchedule::trace(telemetry::StepMetrics& metrics) {
  auto trace = gather_trace(recorder_->passes(), *predictor_, run_.world.group(), run_.instance.context);
  if (!trace) return;
  metrics.schedule = trace->total;
  timelines_ = std::move(trace->pictures);
  for (const ScheduleTrace::Kind& kind : trace->kinds)
    run_.log.info("schedule of step {}, {} passes {}", metrics.step, kind.passes, ScheduleTrace::line(kind));
  if (run_.recipe.schedule.profile.empty())
    run_.log.warn(
        cat("schedule.trace: predictions are for a default machine, because schedule.profile is not set; set it to a "
            "file that `hexad profile` wrote",
            trace->assumed_links.empty() ? "" : "; unmeasured links: ",
            fmt::format("{}", fmt::join(trace->assumed_links, "; "))));
  else
    warn_of_assumed("schedule.trace", trace->assumed_links);
  run_.trace.add(std::move(trace->events), trace->begin);
}

}  // namespace hexad::plan
