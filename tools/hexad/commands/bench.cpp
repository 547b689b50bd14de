#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/units.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/products.h"
#include "framework/kernels/gemm_rate.h"
#include "tools/hexad/commands/bench_fused.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/gemm_peers.h"
#include "tools/hexad/usage.h"
#include "tools/plan/dense_rows.h"
#include "tools/plan/prediction_bench.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct BenchArguments {
  std::string dtype = "f32";
  int threads = 1;
  double seconds = 1;
  bool json = false;
};

base::ExitCode bench_gemm(const BenchArguments& o) {
  kernels::cpu::set_thread_count(o.threads);
  device::DeviceContext context;
  const base::Dtype dtype = base::dtype_from_name(o.dtype);
  const double rate = kernels::measure_gemm_rate(context, dtype, o.seconds).flops_per_second;
  const std::vector<GemmPeer> peers = measure_gemm_peers(context, dtype, o.seconds);
  if (o.json) {
    nlohmann::json out{{"dtype", o.dtype}, {"threads", o.threads}, {"flops_per_second", rate}};
    for (const GemmPeer& p : peers)
      out["peers"][p.name] = p.flops_per_second > 0 ? nlohmann::json(p.flops_per_second) : nlohmann::json(nullptr);
    fmt::print("{}\n", out.dump());
    return base::ExitCode::done;
  }
  const auto row = [](const std::string& name, double flops_per_second, const std::string& description) {
    const std::string text = flops_per_second > 0 ? base::human_quantity(flops_per_second, "FLOP/s") : "-";
    fmt::print("{:<8}{:>14}   {}\n", name, text, description);
  };
  fmt::print("{} products, {} thread{}\n", o.dtype, o.threads, o.threads == 1 ? "" : "s");
  row("Hexad", rate, kernels::cpu::products_description());
  for (const GemmPeer& p : peers) row(p.name, p.flops_per_second, p.description);
  return base::ExitCode::done;
}

struct PredictArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string include_root;
  PredictionBench bench;
};

base::ExitCode bench_predict(const PredictArguments& o, const train::Extensions& extensions) {
  return on_all_ranks([&](comm::World& world) {
    if (world.rank() == 0) require_replaceable(o.bench.out, "{\n  \"hexad\": ", "list of predictions");
    Recipe recipe = load_for_ranks(world, o.recipe, o.overrides, extensions, o.include_root, "bench predict");
    require_no_stages(recipe, o.recipe);
    take_dense_rows(recipe);  // sets schedule.moe.dense_rows, on which the schedules of `gemms: auto` depend
    return bench_predictions(recipe, extensions, world, o.bench);
  });
}

void add_predict(const Command& bench, const Program& program) {
  const Command command =
      bench.add_command("predict", "Predict and measure every legal MoE schedule of a recipe; alone or under mpirun");
  auto options = std::make_shared<PredictArguments>();
  command
      .add_option("recipe", &options->recipe,
                  "YAML recipe; all legal values of its auto keys in schedule.moe are tried")
      .required()
      .path();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the recipe");
  add_include_root(command, options->include_root);
  command.add_option("--out", &options->bench.out, "JSON file for the predictions, written before any measurement")
      .path();
  command.add_option("--rounds", &options->bench.rounds, "measured steps of each schedule; 0: predict only")
      .legal(whole_number(0, 1000));
  command.add_flag("--json", options->bench.json, "print the results as one JSON object");
  command.run([program, options] { return bench_predict(*options, program.extensions); });
}

}  // namespace

void add_bench(const Program& program) {
  const Command command = program.root.add_command("bench", "Measure this machine");
  command.require_command();
  const Command gemm =
      command.add_command("gemm", "Measure the rate of large matrix products with Hexad's kernels, oneDNN and Eigen");
  auto options = std::make_shared<BenchArguments>();
  gemm.add_option("--dtype", &options->dtype, "f32, bf16 or f64").legal(one_of({"f32", "bf16", "f64"}));
  gemm.add_option("--threads", &options->threads, "number of kernel threads").legal(whole_number(1, 4096));
  gemm.add_option("--seconds", &options->seconds, "seconds for which each library is measured").legal(number_above(0));
  gemm.add_flag("--json", options->json, "print one JSON object");
  gemm.run(on_one_rank(gemm, [options] { return bench_gemm(*options); }));
  add_bench_fused(command);
  add_predict(command, program);
  add_bench_prefill(command, program);
}

}  // namespace hexad::app
