#include "tools/plan/prediction_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/data/digest.h"
#include "framework/kernels/cpu/parallel.h"
#include "optim/lr_schedule.h"
#include "parallel/comm/traffic.h"
#include "tools/plan/memory_check.h"
#include "tools/plan/schedule_prices.h"
#include "tools/train/model/train_step.h"
#include "tools/train/process/version.h"
#include "tools/train/recipe/data_on_ranks.h"
#include "tools/train/recipe/schedule_check.h"

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

const ScheduleCandidate& predicted_fastest(const Candidates& candidates) {
  return *std::ranges::min_element(candidates, {}, &ScheduleCandidate::predicted);
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
  fmt::print("predicted fastest: {}\n", moe::to_string(predicted_fastest(candidates).schedule));
}

/// Errors of predictions. An error is the ratio of predicted to measured time, minus one.
struct Findings {
  std::vector<double> errors;                        // error of each candidate, in the order of the candidates
  double median_error = 0, percentile_95_error = 0;  // statistics of the absolute values of `errors`
  const ScheduleCandidate* fastest = nullptr;
  const ScheduleCandidate* predicted_fastest = nullptr;
  double excess = 0;  // measured time of predicted_fastest / measured time of fastest, minus one
};

Findings findings_of(const Candidates& candidates) {
  Findings f;
  std::vector<double> sizes;
  for (const ScheduleCandidate& c : candidates) {
    f.errors.push_back(c.predicted / c.measured_seconds() - 1);
    sizes.push_back(std::abs(f.errors.back()));
  }
  f.median_error = quantile(sizes, 0.5), f.percentile_95_error = quantile(sizes, 0.95);
  f.fastest = &*std::ranges::min_element(candidates, {}, &ScheduleCandidate::measured_seconds);
  f.predicted_fastest = &predicted_fastest(candidates);
  f.excess = f.predicted_fastest->measured_seconds() / f.fastest->measured_seconds() - 1;
  return f;
}

void print_comparison(const Candidates& candidates) {
  const Findings f = findings_of(candidates);
  const size_t width = widest(candidates);
  fmt::print("{:<{}} {:>12} {:>12} {:>8}\n", "schedule", width, "predicted ms", "measured ms", "error");
  for (size_t i = 0; i < candidates.size(); ++i)
    fmt::print("{:<{}} {:>12.3f} {:>12.3f} {:>+7.1f}%\n", moe::to_string(candidates[i].schedule), width,
               1e3 * candidates[i].predicted, 1e3 * candidates[i].measured_seconds(), 100 * f.errors[i]);
  fmt::print("error: median {:.1f}%, 95th percentile {:.1f}%\n", 100 * f.median_error, 100 * f.percentile_95_error);
  fmt::print("fastest: {}; predicted fastest: {}, whose measured time is {:.1f}% above the fastest\n",
             moe::to_string(f.fastest->schedule), moe::to_string(f.predicted_fastest->schedule), 100 * f.excess);
}

void print_json(const Candidates& candidates, const std::string& file, const std::string& digest, int ranks,
                bool measured) {
  const nlohmann::ordered_json none;
  const Findings f = measured ? findings_of(candidates) : Findings{};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < candidates.size(); ++i)
    list.push_back({{"schedule", moe::to_string(candidates[i].schedule)},
                    {"predicted_seconds", candidates[i].predicted},
                    {"measured_seconds", measured ? nlohmann::ordered_json(candidates[i].measured_seconds()) : none},
                    {"error", measured ? nlohmann::ordered_json(f.errors[i]) : none}});
  nlohmann::ordered_json json{{"predictions", file},
                              {"predictions_xxh3", digest},
                              {"ranks", ranks},
                              {"schedules", list},
                              {"predicted_fastest", moe::to_string(predicted_fastest(candidates).schedule)}};
  if (measured)
    json.update({{"median_error", f.median_error},
                 {"percentile_95_error", f.percentile_95_error},
                 {"fastest", moe::to_string(f.fastest->schedule)},
                 {"predicted_fastest_excess", f.excess}});
  fmt::print("{}\n", json.dump(2));
}

Candidates predicted(const Recipe& recipe, const train::Extensions& extensions, const Predictor& predictor,
                     const comm::World& world) {
  return predicted_schedules(
      recipe, extensions, predictor, world.group(),
      MemoryNeeds(recipe, extensions, world.size()).within(legal_schedules(recipe, extensions)).schedules);
}

void measure(Candidates& candidates, const Recipe& recipe, const train::Extensions& extensions,
             const comm::World& world, int rounds) {
  kernels::cpu::set_thread_count(static_cast<int>(*recipe.train.threads));
  const data::TrainingData data = open_data_on_ranks(recipe, extensions, world.group(), world.file_work());
  ModelInstance instance(recipe, extensions, world.group());
  optim::Optimizer optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer, extensions.optimizers,
                             &instance.mesh);
  TrainStep train(recipe, instance, optimizer);
  int64_t step = 0;
  for (int round = 0; round <= rounds; ++round)  // the first round is not measured, because it allocates memory
    for (ScheduleCandidate& c : candidates) {
      instance.reschedule(c.schedule);
      PassRecorder recorder(instance);
      ++step;
      {
        const comm::RankThread rank_thread(*world.group().meter());  // as around the steps of a run
        train.run(*data.train, (step - 1) * recipe.batch.global, step, step,
                  optim::learning_rate(recipe.optim, step, std::max(step, recipe.train.steps)));
      }
      instance.weights.complete(instance.context.compute());  // so that measured layers do not wait for weights
      const double seconds =
          world.group().all_reduce_value(layer_seconds(recorder.layers()), comm::Reduce::max, instance.device());
      if (round > 0) c.measured.push_back(seconds);
    }
}

}  // namespace

ExitCode bench_predictions(const Recipe& recipe, const train::Extensions& extensions, const comm::World& world,
                           const PredictionBench& bench) {
  if (recipe.model.moe.experts == 0)
    fail(ExitCode::usage, "bench predict: the model has no MoE layer (model.moe.experts is 0), expected at least one");
  if (recipe.schedule.pipeline.overlap != pp::Overlap::none)
    fail(ExitCode::usage,
         "bench predict: schedule.pipeline.overlap is micro_batches, expected none; with micro_batches, a pass also "
         "takes the time of the other micro-batch's computation, which predictions do not include");
  const mesh::Mesh mesh(world.group(), recipe.parallel.sizes());
  const Predictor predictor(recipe, mesh);
  Candidates candidates = predicted(recipe, extensions, predictor, world);
  std::string digest;
  if (world.rank() == 0) {
    const std::string text = document(recipe, candidates, world.size());
    base::write_file(bench.out, text);
    digest = data::digest_of(text).to_string();
    // Prints readable text to standard error if standard output gets a JSON object.
    std::FILE* const out = bench.json ? stderr : stdout;
    fmt::print(out, "{} in {}, XXH3 {}, written before any measurement\n",
               base::counted(std::ssize(candidates), "prediction"), bench.out, digest);
    if (recipe.schedule.profile.empty())
      fmt::print(
          out,
          "the predictions assume a default machine, because schedule.profile is not set; `hexad profile` writes a "
          "file for this key\n");
    else if (const std::vector<std::string> links = assumed_links(candidates); !links.empty())
      fmt::print(out, "{}\n", text_of_assumed(recipe.schedule.profile, links));
    for (const std::string& assumed : predictor.assumed_rates) fmt::print(out, "{}\n", assumed);
    std::fflush(out);
  }
  const bool measures = bench.rounds > 0 && fits_in_memory(recipe, extensions, world);
  if (measures) measure(candidates, recipe, extensions, world, bench.rounds);
  if (world.rank() == 0) {
    if (bench.json)
      print_json(candidates, bench.out, digest, world.size(), measures);
    else
      measures ? print_comparison(candidates) : print_predictions(candidates);
  }
  return measures || bench.rounds == 0 ? ExitCode::done : ExitCode::resource;
}

}  // namespace hexad::plan
