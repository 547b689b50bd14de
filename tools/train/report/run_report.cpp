#include "tools/train/report/run_report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "framework/kernels/kernel_table.h"
#include "framework/telemetry/metrics_json.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/version.h"
#include "tools/train/report/trained_steps.h"

namespace hexad::train {

namespace {

constexpr std::string_view peak_fact = "Peak for MFU";

// Returns a text with the memory that the allocator holds, and the unused share of this memory.
std::string held_memory(const std::map<std::string, int64_t>& measured) {
  const int64_t held = measured.at("held"), used = measured.at("total");
  return fmt::format("{}, {:.1f}% unused", base::human_bytes(static_cast<double>(held)),
                     100 * (1 - static_cast<double>(used) / static_cast<double>(held)));
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Adds the peak FLOP/s of all ranks to the fact peak_fact. At the start of a run, this fact contains only the peak's
// source, because a higher peak may be measured later.
void add_peak(std::vector<telemetry::ReportInputs::Fact>& facts, const std::vector<telemetry::StepMetrics>& steps) {
  const double peak = steps.empty() ? 0 : steps.back().peak_flops_per_second;
  for (auto& fact : facts)
    if (peak > 0 && fact.name == peak_fact)
      fact.value = fmt::format("{}, all ranks ({})", base::human_quantity(peak, "FLOP/s"), fact.value);
}

std::map<std::string, int64_t> most_memory(const std::vector<telemetry::StepMetrics>& steps, int64_t after) {
  std::map<std::string, int64_t> most;
  for (const telemetry::StepMetrics& s : steps)
    if (s.step > after)
      for (const auto& [category, bytes] : s.memory_peak_bytes) most[category] = std::max(most[category], bytes);
  return most;
}

}  // namespace

std::vector<telemetry::ReportInputs::Fact> facts_of_start(const Recipe& recipe, int ranks) {
  return {{"Version", fmt::format("hexad {} ({})", version, architecture)},
          {"Host of rank 0", host_name()},
          {"Command", command_line()},
          {"Processor of rank 0", processor_name()},
          {"Layout", fmt::format("{}: {}; {} each", base::counted(ranks, "rank"), describe(recipe.parallel, ranks),
                                 base::counted(recipe.train.threads.value_or(1), "thread"))},
          {std::string(peak_fact), recipe.train.peak_flops ? "from the recipe" : "the best sample of each rank"}};
}

std::map<std::string, int64_t> measured_memory(const std::filesystem::path& run_dir, int64_t step) {
  return most_memory(telemetry::read_metrics(run_dir / "metrics.jsonl").steps, step);
}

void write_run_report(const std::filesystem::path& run_dir, const std::filesystem::path& output,
                      std::optional<telemetry::ReportInputs::Prediction> prediction) {
  TrainedSteps run = trained_steps(run_dir);
  RunHistory& history = run.history;
  telemetry::ReportInputs inputs;
  inputs.metrics = run_dir / "metrics.jsonl";
  inputs.output = output.empty() ? run_dir / "report.html" : output;
  inputs.recipe = contents_of(run.recipe);
  inputs.run.ranks = 0;  // unknown if there is no history, which older programs did not write
  if (!history.starts.empty()) {
    const RunStart& newest = history.starts.back();
    inputs.run = newest.run;
    inputs.environment = newest.facts;
    add_peak(inputs.environment, run.metrics.steps);
    inputs.environment.push_back({"Started", newest.date});
  }
  inputs.run.name = folder_name(run_dir);
  inputs.prediction = std::move(prediction);
  for (const RunStart& s : history.starts)
    inputs.parts.push_back({s.run.first_step, s.date,
                            fmt::format("{}: {}", base::counted(s.run.ranks, "rank"), s.layout), s.changes,
                            s.run.ranks});
  inputs.trouble = ending_of(history).trouble;
  if (history.end) {
    inputs.environment.push_back({"Ended", history.end->date});
    for (auto& fact : history.end->facts) inputs.environment.push_back(std::move(fact));
    inputs.samples = std::move(history.end->samples);
    inputs.timelines = std::move(history.end->timelines);
  }
  inputs.environment.push_back({"Written", utc_now()});
  const auto memory = most_memory(run.metrics.steps, history.starts.empty() ? 0 : history.starts.back().run.first_step);
  if (memory.contains("held")) inputs.environment.push_back({"GPU memory held by the allocator", held_memory(memory)});
  telemetry::write_report(inputs);
}

}  // namespace hexad::train
