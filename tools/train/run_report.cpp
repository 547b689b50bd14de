#include "tools/train/run_report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/kernels/kernel_table.h"
#include "framework/telemetry/comparison.h"
#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/units.h"
#include "tools/train/generation.h"
#include "tools/train/machine.h"
#include "tools/train/renamed_keys.h"
#include "tools/train/version.h"

namespace hexad::train {

using namespace layers;

std::vector<telemetry::ReportInputs::Sample> continue_prompts(const Recipe& recipe, ModelInstance& instance,
                                                              const data::Tokenizer* tokenizer) {
  std::vector<telemetry::ReportInputs::Sample> samples;
  if (!tokenizer || recipe.model.kind == ModelKind::encoder) return samples;
  for (const std::string& prompt : recipe.run.prompts) {
    std::vector<int32_t> ids{tokenizer->end_of_document()};
    const auto text = tokenizer->encode(prompt);
    ids.insert(ids.end(), text.begin(), text.end());
    SamplingOptions options;
    options.seed = recipe.train.seed;
    options.stop_id = tokenizer->end_of_document();
    samples.push_back({prompt, tokenizer->decode(generate(instance, ids, options))});
  }
  return samples;
}

namespace {

constexpr std::string_view peak_fact = "Peak for MFU";

// What tensors leave of the memory that the allocator holds.
std::string held_memory(const std::map<std::string, int64_t>& measured) {
  const int64_t held = measured.at("held"), used = measured.at("total");
  return fmt::format("{}, {:.1f}% of it for nothing", device::human_bytes(held),
                     100 * (1 - static_cast<double>(used) / static_cast<double>(held)));
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string counted(int64_t n, std::string_view thing) { return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s"); }

// Of "runs/a/" and ".", too.
std::string folder_name(const std::filesystem::path& dir) {
  const auto path = std::filesystem::weakly_canonical(dir);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

void require_run_directory(const std::filesystem::path& dir) {
  if (!std::filesystem::is_regular_file(dir / "recipe.yaml"))
    base::fail(base::ExitCode::usage, "'", dir.string(), "' is no run directory: it has no recipe.yaml");
}

// Names of folders, or whole paths of those that share one.
std::vector<std::string> short_names(const std::vector<std::string>& dirs) {
  std::vector<std::string> names;
  for (const std::string& dir : dirs) names.push_back(folder_name(dir));
  for (size_t i = 0; i < dirs.size(); ++i)
    if (std::ranges::count_if(dirs, [&](const std::string& d) { return folder_name(d) == folder_name(dirs[i]); }) > 1)
      names[i] = dirs[i];
  return names;
}

void require_different(const std::vector<std::string>& dirs) {
  std::map<std::filesystem::path, std::string> seen;
  for (const std::string& dir : dirs) {
    const auto [before, is_new] = seen.try_emplace(std::filesystem::weakly_canonical(dir + "/recipe.yaml"), dir);
    if (!is_new)
      base::fail(base::ExitCode::usage, "'", dir, "' is the same run as '", before->second,
                 "', expected different ones to compare");
  }
}

// What of a run directory its reports are about.
struct TrainedSteps {
  std::vector<telemetry::StepMetrics> steps;
  RunHistory history;  // of the starts that trained a step; the others say nothing of these
  std::filesystem::path recipe;
};

TrainedSteps trained_steps(const std::filesystem::path& dir) {
  require_run_directory(dir);
  TrainedSteps run{telemetry::read_metrics(dir / "metrics.jsonl").steps, read_history(dir), dir / "recipe.yaml"};
  auto& starts = run.history.starts;
  const int64_t last = run.steps.empty() ? 0 : run.steps.back().step;
  std::erase_if(starts, [&](const RunStart& s) { return s.run.first_step >= last; });
  if (!starts.empty() && std::filesystem::is_regular_file(recipe_of_start(dir, starts.back())))
    run.recipe = recipe_of_start(dir, starts.back());
  return run;
}

struct ReadRecipe {
  Recipe recipe;
  std::vector<config::Problems::Problem> unread;  // keys that have their default for it
};

ReadRecipe read_recipe(const std::filesystem::path& path) {
  auto document = config::load(path);
  rename_keys(document);
  config::Problems problems;
  Recipe recipe = config::read<Recipe>(document, problems);
  return {std::move(recipe), problems.list()};
}

// Of `recipe` from `first`, and what of it cannot be compared.
std::vector<std::string> differences(const ReadRecipe& first, ReadRecipe recipe) {
  recipe.recipe.run.dir = first.recipe.run.dir;  // which no two runs share
  std::vector<std::string> lines = config::differences(first.recipe, recipe.recipe);
  for (const auto& unread : {first.unread, recipe.unread})
    for (const auto& u : unread)
      std::erase_if(lines, [&](const std::string& line) {
        return !u.path.empty() && (line.starts_with(u.path + ":") || line.starts_with(u.path + "."));
      });
  for (const auto& u : recipe.unread) lines.push_back(fmt::format("not compared: {}: {}", u.at.text(), u.line));
  return lines;
}

// The start's fact says where the peak comes from; the run may have measured a higher one later. Older programs wrote
// both at the start.
void add_peak(std::vector<telemetry::ReportInputs::Fact>& facts, const std::vector<telemetry::StepMetrics>& steps) {
  const double peak = steps.empty() ? 0 : steps.back().peak_flops_per_second;
  for (auto& fact : facts)
    if (peak > 0 && fact.name == peak_fact)
      fact.value = fmt::format("{}, all ranks ({})", telemetry::human_quantity(peak, "FLOP/s"), fact.value);
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
          {"Machine", processor_name()},
          {"Layout", fmt::format("{}: {}; {} each", counted(ranks, "rank"), describe(recipe.parallel, ranks),
                                 counted(recipe.train.threads.value_or(1), "thread"))},
          {std::string(peak_fact), recipe.train.peak_flops ? "from the recipe" : "the best sample of each rank"}};
}

std::map<std::string, int64_t> measured_memory(const std::filesystem::path& run_dir, int64_t step) {
  return most_memory(telemetry::read_metrics(run_dir / "metrics.jsonl").steps, step);
}

void write_run_report(const std::filesystem::path& run_dir, const std::filesystem::path& output) {
  TrainedSteps run = trained_steps(run_dir);
  RunHistory& history = run.history;
  telemetry::ReportInputs inputs;
  inputs.metrics = run_dir / "metrics.jsonl";
  inputs.output = output.empty() ? run_dir / "report.html" : output;
  inputs.recipe = text_of(run.recipe);
  inputs.run.ranks = 0;  // of an older program: unknown
  if (!history.starts.empty()) {
    const RunStart& newest = history.starts.back();
    inputs.run = newest.run;
    inputs.environment = newest.facts;
    add_peak(inputs.environment, run.steps);
    inputs.environment.push_back({"Started", newest.date});
  }
  inputs.run.name = folder_name(run_dir);
  for (const RunStart& s : history.starts)
    inputs.parts.push_back(
        {s.run.first_step, s.date, fmt::format("{}: {}", counted(s.run.ranks, "rank"), s.layout), s.changes});
  if (history.end) {
    inputs.environment.push_back({"Ended", history.end->date});
    for (auto& fact : history.end->facts) inputs.environment.push_back(std::move(fact));
    inputs.samples = std::move(history.end->samples);
    inputs.timelines = std::move(history.end->timelines);
    inputs.trouble = history.end->trouble;
  } else if (!history.starts.empty()) {
    inputs.trouble = "Its end is not recorded: the run was killed, or went on when this report was made.";
  }
  inputs.environment.push_back({"Written", utc_now()});
  const auto memory = most_memory(run.steps, history.starts.empty() ? 0 : history.starts.back().run.first_step);
  if (memory.contains("held")) inputs.environment.push_back({"Memory held on the card", held_memory(memory)});
  telemetry::write_report(inputs);
}

void write_run_comparison(const std::vector<std::string>& run_dirs, const std::filesystem::path& output) {
  require_different(run_dirs);
  telemetry::ComparisonInputs inputs;
  inputs.output = output;
  const std::vector<std::string> names = short_names(run_dirs);
  std::optional<ReadRecipe> first;
  for (size_t i = 0; i < run_dirs.size(); ++i) {
    const std::filesystem::path dir = run_dirs[i];
    const TrainedSteps trained = trained_steps(dir);
    telemetry::ComparisonInputs::Run run{
        .name = names[i], .metrics = dir / "metrics.jsonl", .layout = {}, .differences = {}};
    if (const auto& starts = trained.history.starts; !starts.empty())
      run.layout = counted(starts.back().run.ranks, "rank") + ": " + starts.back().layout;
    ReadRecipe recipe = read_recipe(trained.recipe);
    if (!first) first = recipe;
    run.differences = differences(*first, std::move(recipe));
    inputs.runs.push_back(std::move(run));
  }
  telemetry::write_comparison(inputs);
}

}  // namespace hexad::train
