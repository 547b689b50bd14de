#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/gemm_rate.h"
#include "framework/telemetry/units.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/output_file.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/usage.h"
#include "tools/plan/prediction_bench.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct Options {
  std::string dtype = "f32";
  int threads = 1;
  double seconds = 1;
  bool json = false;
};

void bench_gemm(const Options& o) {
  kernels::cpu::set_thread_count(o.threads);
  device::DeviceContext context;
  const auto rate = kernels::measure_gemm_rate(context, base::dtype_from_name(o.dtype), o.seconds);
  if (o.json)
    fmt::print(
        "{}\n",
        nlohmann::json{{"dtype", o.dtype}, {"threads", o.threads}, {"flops_per_second", rate.flops_per_second}}.dump());
  else
    fmt::print("{} products, {} thread{}: {}\n", o.dtype, o.threads, o.threads == 1 ? "" : "s",
               telemetry::human_quantity(rate.flops_per_second, "FLOP/s"));
}

struct PredictOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  PredictionBench bench;
};

base::ExitCode bench_predict(const PredictOptions& o, const layers::Registry& registry) {
  return on_all_ranks([&](comm::World& world) {
    if (world.rank() == 0) require_replaceable(o.bench.out, "{\n  \"hexad\": ", "list of predictions");
    const Recipe recipe = load_for_ranks(world, o.recipe, o.overrides, registry);
    bench_predictions(recipe, registry, world, o.bench);
    return base::ExitCode::done;
  });
}

void add_predict(CLI::App& bench, CommandLine& line) {
  auto* command = bench.add_subcommand(
      "predict", "Predict every legal MoE schedule of a recipe, then measure them; alone or under mpirun");
  auto options = std::make_shared<PredictOptions>();
  command->add_option("recipe", options->recipe, "YAML recipe; what is auto in schedule.moe varies")->required();
  command->add_option("overrides", options->overrides, "key.path=value, applied to the recipe");
  command->add_option("--out", options->bench.out, "JSON file for the predictions, written before any measurement")
      ->capture_default_str();
  command->add_option("--rounds", options->bench.rounds, "steps of each schedule")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->callback([&line, options] { line.exit_code = bench_predict(*options, line.registry); });
}

}  // namespace

void add_bench(CommandLine& line) {
  auto* command = line.app.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  auto* gemm = command->add_subcommand("gemm", "Rate of large matrix products through Hexad's kernels");
  auto options = std::make_shared<Options>();
  gemm->add_option("--dtype", options->dtype, "f32, bf16 or f64")->check(one_of({"f32", "bf16", "f64"}));
  gemm->add_option("--threads", options->threads, "of the kernels")->check(whole_number(1, 4096));
  gemm->add_option("--seconds", options->seconds, "how long to measure")->check(number_above(0));
  gemm->add_flag("--json", options->json, "as one JSON object");
  gemm->callback([options] { bench_gemm(*options); });
  add_predict(*command, line);
}

}  // namespace hexad::app
