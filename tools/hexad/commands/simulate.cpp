#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/config/document.h"
#include "tools/hexad/commands/cluster_options.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/commands/simulate_beside.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/usage.h"
#include "tools/plan/cluster_device.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/papers/paper.h"
#include "tools/plan/prediction_error.h"
#include "tools/plan/step_forecast.h"
#include "tools/plan/step_trace.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/stage_documents.h"
#include "tools/train/report/run_report.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct SimulateArguments {
  std::string paper, cluster, input, include_root, trace, beside, report, routing = "even";
  std::vector<std::string> overrides;
  int64_t world = 0, stage = 0;
  bool json = false;
};

base::ExitCode evaluate_paper(const SimulateArguments& options) {
  const auto all = papers();
  const auto paper = std::ranges::find(all, options.paper, &Paper::name);
  fmt::print("{}\n", paper->evaluate(config::load(options.input, options.overrides, options.include_root)));
  return base::ExitCode::done;
}

struct Simulation {
  Recipe recipe;
  mesh::Layout layout;
  StepForecast step;
  Throughput rates;
  PredictionError error;
  std::string warning;  // empty if a rank has enough memory
  std::vector<std::string> assumed;
  PredictedPlaces places;
  std::optional<StepBesideRun> beside;
};

Simulation simulated(const SimulateArguments& options, const Extensions& extensions) {
  std::optional<MeasuredStep> run;
  if (!options.beside.empty()) run = measured_step(options.beside);
  const DividedOverrides overrides = divided(options.overrides);
  const Cluster cluster = load_cluster(options.cluster, overrides.cluster);
  const config::Document document = on_device_of(
      cluster, options.cluster,
      document_of_stage(with_current_names(config::load(options.input, overrides.recipe, options.include_root), say),
                        options.stage),
      say);
  Recipe recipe = load_to_train(document, extensions, options.world, say);
  complete(recipe, 1);
  const int64_t ranks = options.world > 0 ? options.world : run ? run->ranks : recipe.parallel.fewest_ranks();
  if (run) require_same_step(*run, recipe, ranks);
  if (options.world == 0) load_to_train(document, extensions, ranks);  // only checks the layout
  const mesh::Layout layout(recipe.parallel.sizes(), static_cast<int>(ranks));
  const StepPrices prices(cluster, layout.world());
  const RoutingLoad load = load_of(options.routing, recipe.model);
  StepForecast step = forecast_step(recipe, extensions, layout, prices, load);
  std::optional<StepBesideRun> beside;
  if (run) {
    step = with_all_micro_batches(std::move(step), recipe, extensions, layout, prices, load);
    const double memory = estimate_memory(recipe, extensions, ranks, load).total;
    beside = StepBesideRun{.run = std::move(*run), .rows = {}};
    beside->rows = compare(step, memory, beside->run);
  }
  const Throughput rates = throughput(step.seconds, recipe, extensions, prices.prices(), ranks);
  std::vector<std::string> assumed = assumptions(cluster, step.uneven_groups);
  return {.recipe = recipe,
          .layout = layout,
          .step = std::move(step),
          .rates = rates,
          .error = prediction_error(cluster),
          .warning = caution_of_cluster_memory(recipe, extensions, cluster, options.cluster, ranks, load),
          .assumed = std::move(assumed),
          .places = {prices.node_of_rank(), prices.domain_of_rank()},
          .beside = std::move(beside)};
}

void print_text(const SimulateArguments& options, const Simulation& s) {
  fmt::print("{} on {}: {}\n{}\n\n", options.input, options.cluster, base::counted(s.layout.world(), "rank"),
             s.layout.to_string());
  if (!s.warning.empty()) fmt::print("warning: {}\n\n", s.warning);
  fmt::print("step time   {:>12}   {} of {} micro-batches simulated\n", s.error.text(s.step.seconds),
             s.step.simulated_micro_batches, s.step.micro_batches);
  fmt::print("tokens/s    {:>12}   {} for each rank\n", base::human_count(s.rates.tokens_per_second),
             base::human_count(s.rates.tokens_per_second / s.layout.world()));
  if (s.rates.peak_flops_per_second > 0)
    fmt::print("MFU         {:>12}   of {} for each rank\n", base::human_percent(s.rates.mfu()),
               base::human_quantity(s.rates.peak_flops_per_second / s.layout.world(), "FLOP/s"));
  fmt::print(
      "\nShares of a step, by pipeline stage. The share of kernels includes update, the update of weights. The shares "
      "between update and idle are those of communication that overlaps no kernel, by class.\n");
  fmt::print("{:>5} {:>6} {:>8} {:>8}", "stage", "rank", "kernels", "update");
  for (int c = 0; c < comm::traffic_class_count; ++c) fmt::print(" {:>8}", name_of(static_cast<comm::TrafficClass>(c)));
  fmt::print(" {:>8}\n", "idle");
  for (size_t i = 0; i < s.step.stages.size(); ++i) {
    const StepForecast::Stage& stage = s.step.stages[i];
    const auto share = [&](double seconds) { return fmt::format("{:.1f}%", 100 * seconds / s.step.seconds); };
    fmt::print("{:>5} {:>6} {:>8} {:>8}", i, stage.rank, share(stage.busy), share(stage.update));
    for (const double seconds : stage.exposed) fmt::print(" {:>8}", share(seconds));
    fmt::print(" {:>8}\n", share(stage.idle));
  }
  if (s.beside) print_text(*s.beside);
  fmt::print("\nstep time: {}\n", s.error.explanation());
  for (size_t i = 0; i < s.assumed.size(); ++i) fmt::print("{}{}\n", i == 0 ? "assumed: " : "         ", s.assumed[i]);
}

void print_json(const SimulateArguments& options, const Simulation& s) {
  using Json = nlohmann::ordered_json;
  const auto by_class = [](const std::array<double, comm::traffic_class_count>& values) {
    Json json = Json::object();
    for (int c = 0; c < comm::traffic_class_count; ++c)
      json[std::string(name_of(static_cast<comm::TrafficClass>(c)))] = values[c];
    return json;
  };
  Json stages = Json::array();
  for (const StepForecast::Stage& stage : s.step.stages)
    stages.push_back({{"rank", stage.rank},
                      {"kernel_seconds", stage.busy},
                      {"update_seconds", stage.update},
                      {"exposed_seconds", by_class(stage.exposed)},
                      {"idle_seconds", stage.idle},
                      {"sent_bytes", by_class(stage.sent)}});
  const bool has_peak = s.rates.peak_flops_per_second > 0;
  Json json{{"recipe", options.input},
            {"cluster", options.cluster},
            {"ranks", s.layout.world()},
            {"layout", s.layout.to_string()},
            {"routing", options.routing},
            {"step_seconds", s.step.seconds},
            {"step_seconds_interval", {s.error.least(s.step.seconds), s.error.most(s.step.seconds)}},
            {"micro_batches", s.step.micro_batches},
            {"simulated_micro_batches", s.step.simulated_micro_batches},
            {"tokens_per_second", s.rates.tokens_per_second},
            {"model_flops_per_second", s.rates.model_flops_per_second},
            {"peak_flops_per_second", has_peak ? Json(s.rates.peak_flops_per_second) : Json(nullptr)},
            {"mfu", has_peak ? Json(s.rates.mfu()) : Json(nullptr)},
            {"stages", stages},
            {"warnings", s.warning.empty() ? Json::array() : Json::array({s.warning})},
            {"interval", s.error.explanation()},
            {"assumed", s.assumed}};
  if (s.beside) json["beside"] = json_of(*s.beside);
  fmt::print("{}\n", json.dump(2));
}

base::ExitCode simulate_step(const SimulateArguments& options, const Extensions& extensions) {
  require_two_files("--trace", options.trace, "--report", options.report);
  if (!options.trace.empty()) require_replaceable(options.trace, "\x1f\x8b", "trace");
  if (!options.report.empty()) require_replaceable(options.report, "<!DOCTYPE html>", "report");
  const Simulation s =
      on_cluster(options.cluster, divided(options.overrides).cluster, [&] { return simulated(options, extensions); });
  options.json ? print_json(options, s) : print_text(options, s);
  if (!options.trace.empty() && s.beside)
    write_both_traces(options.trace, *s.beside, s.step, s.places);
  else if (!options.trace.empty())
    telemetry::write_traces(options.trace, {{"", trace_of(s.step, s.places.domain_of_rank), s.places.node_of_rank}});
  if (!options.report.empty()) {
    const std::string about =
        fmt::format("A step of {} on {}, predicted from {}: {}.", base::counted(s.layout.world(), "rank"),
                    options.cluster, options.input, s.layout.to_string());
    write_run_report(s.beside->run.run, options.report, prediction_of(*s.beside, s.step, s.places, about));
  }
  return base::ExitCode::done;
}

base::ExitCode simulate(const SimulateArguments& options, const Extensions& extensions) {
  if (options.paper.empty() == options.cluster.empty())
    base::fail(base::ExitCode::usage,
               options.paper.empty() ? "neither --cluster nor --paper is given" : "--cluster and --paper are given",
               "; expected one of them: --cluster FILE to predict a step of a recipe, or --paper NAME to evaluate a "
               "paper's formulas");
  return options.paper.empty() ? simulate_step(options, extensions) : evaluate_paper(options);
}

std::string keys_of_all_papers() {
  std::string text =
      "Keys of INPUT.yaml for --paper, in the papers' symbols: default, [unit] and meaning (docs/simulate.md).\n";
  for (const Paper& paper : papers())
    text += fmt::format("\n--paper {}: {}\n{}", paper.name, paper.title, paper.keys());
  return text;
}

}  // namespace

void add_simulate(const Program& program) {
  const Command command =
      program.root.add_command("simulate", "Predict a step of a recipe on a cluster, or evaluate a paper's formulas");
  auto options = std::make_shared<SimulateArguments>();
  std::vector<std::string_view> names;
  for (const Paper& paper : papers()) names.push_back(paper.name);
  Option cluster = command.add_option(
      "--cluster", &options->cluster,
      "YAML of the cluster for which a step is predicted, measured (hexad profile) or described (recipes/clusters)");
  cluster.path();
  command
      .add_option("--paper", &options->paper,
                  fmt::format("paper whose formulas are evaluated, with results as JSON: {}", fmt::join(names, ", ")))
      .legal(one_of(names));
  command.add_option("input", &options->input, "YAML recipe; with --paper, YAML file with the paper's symbols as keys")
      .required()
      .path();
  command.add_option("overrides", &options->overrides,
                     "key.path=value, applied to the input; cluster.key.path=value, applied to the cluster");
  add_include_root(command, options->include_root);  // applies to the recipe, or to the file of symbols
  command.add_option("--world", &options->world, "number of ranks; 0: the smallest number that the layout needs")
      .legal(whole_number(0, 1 << 24))
      .needs(cluster);
  add_stage(command, options->stage).needs(cluster);
  add_routing(command, options->routing).needs(cluster);
  command
      .add_option(
          "--trace", &options->trace,
          "file for the simulated timeline, such as step.json.gz; with --beside, also for the measured timeline")
      .path()
      .needs(cluster);
  Option beside = command.add_option(
      "--beside", &options->beside,
      "run directory whose measured steps are compared with the prediction; the default of --world is then the run's "
      "number of ranks");
  beside.path().needs(cluster);
  command
      .add_option("--report", &options->report,
                  "HTML file for the run's report and the prediction; it has both timelines if profile.steps recorded "
                  "a step of the run")
      .path()
      .needs(beside);
  command.add_flag("--json", options->json, "print one JSON object").needs(cluster);
  command.footer(keys_of_all_papers);
  command.run(
      on_one_rank(command, [options, extensions = program.extensions] { return simulate(*options, extensions); }));
}

}  // namespace hexad::app
