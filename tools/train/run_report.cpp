#include "tools/train/run_report.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "framework/kernels/kernel_table.h"
#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/units.h"
#include "tools/train/generation.h"
#include "tools/train/machine.h"
#include "tools/train/version.h"

namespace hexad::train {

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

// What tensors leave of the memory that the allocator holds.
std::string held_memory(const std::map<std::string, int64_t>& measured) {
  const int64_t held = measured.at("held"), used = measured.at("total");
  return fmt::format("{}, {:.1f}% of it for nothing", device::human_bytes(held),
                     100 * (1 - static_cast<double>(used) / static_cast<double>(held)));
}

// The highest of all steps.
std::map<std::string, int64_t> measured_memory(const std::filesystem::path& metrics) {
  std::map<std::string, int64_t> most;
  for (const telemetry::StepMetrics& s : telemetry::read_metrics(metrics).steps)
    for (const auto& [category, bytes] : s.memory_peak_bytes) most[category] = std::max(most[category], bytes);
  return most;
}

}  // namespace

void write_run_report(const Recipe& recipe, const telemetry::RunInfo& info,
                      const std::vector<telemetry::ReportInputs::Sample>& samples, double peak_flops,
                      const ScheduleAdviser* adviser) {
  const std::filesystem::path dir = recipe.run.dir;
  telemetry::ReportInputs inputs;
  inputs.metrics = dir / "metrics.jsonl";
  inputs.output = dir / "report.html";
  inputs.run = info;
  inputs.recipe = config::write(recipe);
  inputs.samples = samples;
  inputs.environment = {
      {"Version", fmt::format("hexad {} ({})", version, architecture)},
      {"Written", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))},
      {"Host of rank 0", host_name()},
      {"Command", command_line()},
      {"Machine", processor_name()},
      {"Layout", fmt::format("{} ranks: {}; {} threads each", info.ranks, describe(recipe.parallel, info.ranks),
                             recipe.train.threads.value_or(1))},
      {"Peak for MFU", fmt::format("{} ({})", telemetry::human_quantity(peak_flops, "FLOP/s"),
                                   recipe.train.peak_flops ? "from the recipe" : "measured by a product, all ranks")}};
  const std::map<std::string, int64_t> memory = measured_memory(inputs.metrics);
  if (adviser) adviser->add_to(inputs, memory);
  if (memory.contains("held")) inputs.environment.push_back({"Memory held on the card", held_memory(memory)});
  telemetry::write_report(inputs);
}

}  // namespace hexad::train
