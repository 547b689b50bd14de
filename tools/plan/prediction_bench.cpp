#include "tools/plan/prediction_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/data/digest.h"
#include "framework/data/training_data.h"
#include "framework/device/meta/meta_run.h"
#include "framework/kernels/cpu/parallel.h"
#include "optim/lr_schedule.h"
#include "tools/plan/memory_check.h"
#include "tools/plan/schedule_prices.h"
#include "tools/train/schedule_check.h"
#include "tools/train/train_step.h"
#include "tools/train/version.h"

namespace hexad::plan {

using namespace base;

using namespace train;

namespace {

using Candidates = std::vector<ScheduleCandidate>;

std::string document(const Recipe& recipe, const Candidates& candidates, int ranks) {
  nlohmann::ordered_json json{{"hexad", version}, {"ranks", ranks}, {"profile", recipe.schedule.profile}};
  auto& list = json["seconds"] = nlohmann::ordered_json::object();
  for (const ScheduleCandidate& c : candidates) list[moe::to_string(c.schedule)] = c.predicted;
  json["recipe"] = config::write(recipe);
  return json.dump(2) + "\n";
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::ceil(part * static_cast<double>(values.size()))) - 1];
}

size_t widest(const Candidates& candidates) {
  size_t width = 0;
  for (const ScheduleCandidate& c : candidates) width = std::max(width, moe::to_string(c.schedule).size());
  return width;
}

void print_predictions(const Candidates& candidates) {
  const size_t width = widest(candidates);
  fmt::print("{:<{}} {:>12}\n", "schedule", width, "predicted ms");
  for (const ScheduleCandidate& c : candidates)
    fmt::print("{:<{}} {:>12.3f}\n", moe::to_string(c.schedule), width, 1e3 * c.predicted);
  const auto best = std::ranges::min_element(candidates, {}, &ScheduleCandidate::predicted);
  fmt::print("predicted fastest: {}\n", moe::to_string(best->schedule));
}

void print_comparison(const Candidates& candidates) {
  const size_t width = widest(candidates);
  fmt::print("{:<{}} {:>12} {:>12} {:>8}\n", "schedule", width, "predicted ms", "measured ms", "error");
  std::vector<double> errors;
  for (const ScheduleCandidate& c : candidates) {
    const double error = c.predicted / c.measured_seconds() - 1;
    errors.push_back(std::abs(error));
    fmt::print("{:<{}} {:>12.3f} {:>12.3f} {:>+7.1f}%\n", moe::to_string(c.schedule), width, 1e3 * c.predicted,
               1e3 * c.measured_seconds(), 100 * error);
  }
  const auto faster = [](const auto& a, const auto& b) { return a.measured_seconds() < b.measured_seconds(); };
  const auto foreseen = [](const auto& a, const auto& b) { return a.predicted < b.predicted; };
  const auto best = std::min_element(candidates.begin(), candidates.end(), faster);
  const auto expected = std::min_element(candidates.begin(), candidates.end(), foreseen);
  fmt::print("error: median {:.1f}%, 95th percentile {:.1f}%\n", 100 * quantile(errors, 0.5),
             100 * quantile(errors, 0.95));
  fmt::print("fastest: {}; predicted: {}, which takes {:+.1f}%\n", moe::to_string(best->schedule),
             moe::to_string(expected->schedule), 100 * (expected->measured_seconds() / best->measured_seconds() - 1));
}

// The model has no memory here: schedules are priced by their graphs.
Candidates predicted(const Recipe& recipe, const train::Extensions& extensions, const comm::World& world) {
  ModelInstance instance(recipe, extensions, world.group(), {}, std::make_shared<device::MetaRun>(recipe.device));
  return predicted_schedules(
      recipe, instance, Predictor(recipe, instance.mesh), world.group(),
      MemoryNeeds(recipe, extensions, world.size()).within(legal_schedules(recipe, extensions)).schedules);
}

void measure(Candidates& candidates, const Recipe& recipe, const train::Extensions& extensions,
             const comm::World& world, int rounds) {
  kernels::cpu::set_thread_count(static_cast<int>(*recipe.train.threads));
  const data::TrainingData data = data::open_training_data(
      recipe.data, {.context = recipe.model.context, .vocab_size = recipe.model.vocab, .seed = recipe.train.seed},
      extensions.sources);
  ModelInstance instance(recipe, extensions, world.group());
  optim::Optimizer optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer, extensions.optimizers);
  TrainStep train(recipe, instance, optimizer);
  int64_t step = 0;
  for (int round = 0; round <= rounds; ++round)  // the first one finds memory
    for (ScheduleCandidate& c : candidates) {
      instance.reschedule(c.schedule);
      PassRecorder recorder(instance);
      ++step;
      train.run(*data.train, (step - 1) * recipe.batch.global, step, step,
                optim::learning_rate(recipe.optim, step, std::max(step, recipe.train.steps)));
      const double seconds =
          world.group().all_reduce_value(measured_seconds(recorder.passes()), comm::Reduce::max, instance.device());
      if (round > 0) c.measured.push_back(seconds);
    }
}

}  // namespace

ExitCode bench_predictions(const Recipe& recipe, const train::Extensions& extensions, const comm::World& world,
                           const PredictionBench& bench) {
  if (recipe.model.moe.experts == 0)
    fail(ExitCode::usage, "bench predict: the model has no MoE layer (model.moe.experts is 0)");
  if (recipe.schedule.pipeline.overlap != pp::Overlap::none)
    fail(ExitCode::usage,
         "bench predict: under schedule.pipeline.overlap a pass takes also what the other micro-batch computes "
         "meanwhile, which predictions do not know; set it to none");
  Candidates candidates = predicted(recipe, extensions, world);
  if (world.rank() == 0) {
    const std::string text = document(recipe, candidates, world.size());
    base::write_file(bench.out, text);
    fmt::print("{} predictions in {}, XXH3 {}, before any measurement\n", candidates.size(), bench.out,
               data::digest_of(text).to_string());
    if (recipe.schedule.profile.empty())
      fmt::print("they are those of a plain machine, as there is no schedule.profile (hexad profile writes one)\n");
    std::fflush(stdout);
  }
  const bool measures = bench.rounds > 0 && may_start(recipe, extensions, world);
  if (measures) measure(candidates, recipe, extensions, world, bench.rounds);
  if (world.rank() == 0) measures ? print_comparison(candidates) : print_predictions(candidates);
  return measures || bench.rounds == 0 ? ExitCode::done : ExitCode::resource;
}

}  // namespace hexad::plan
