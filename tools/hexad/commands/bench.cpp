#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/gemm_rate.h"
#include "framework/telemetry/units.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/usage.h"

namespace hexad::app {
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

}  // namespace

void add_bench(CommandLine& line) {
  auto* command = line.app.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  auto* gemm = command->add_subcommand("gemm", "Rate of large matrix products through Hexad's kernels");
  auto options = std::make_shared<Options>();
  gemm->add_option("--dtype", options->dtype, "f32, bf16 or f64")->check(one_of({"f32", "bf16", "f64"}));
  gemm->add_option("--threads", options->threads, "OpenMP threads")->check(whole_number(1, 4096));
  gemm->add_option("--seconds", options->seconds, "how long to measure")->check(number_above(0));
  gemm->add_flag("--json", options->json, "as one JSON object");
  gemm->callback([options] { bench_gemm(*options); });
}

}  // namespace hexad::app
