// Compares three values for the bytes of weights, gradients and optimizer states of a rank, for every level of ZeRO:
// the allocator's count, Hexad's formula, and MoNTA's Table 3. Ranks are threads.
//
//   parameter_memory RECIPE RANKS [key.path=value ...]
#include <fmt/format.h>

#include <cstdio>
#include <mutex>

#include "framework/kernels/cpu/parallel.h"
#include "layers/model_size.h"
#include "parallel/comm/thread_group.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/papers/monta.h"
#include "tools/train/recipe/training_stages.h"
#include "tools/verify/test_documents.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

using namespace base;
using namespace layers;
using namespace train;
namespace {

using device::Category;

// Returns the peaks of the second step on the first rank.
device::MemoryStats measure(const Recipe& recipe, int ranks) {
  device::MemoryStats memory;
  comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
    kernels::cpu::set_thread_count(1);
    TrainingRun run(recipe, world);
    const FixedSource source = documents_of(recipe);
    run.step(source);
    run.instance.context.allocator()->reset_peaks();
    run.step(source);
    if (world.rank() == 0) memory = run.instance.context.allocator()->stats();
  });
  return memory;
}

double monta(const Recipe& recipe, int ranks) {
  const mesh::Layout layout(recipe.parallel.sizes(), ranks);
  const auto size = layers::parameter_counts(recipe.model, Registry());
  const auto degree = [&](Axis axis) { return static_cast<double>(layout.size(axis)); };
  const auto bytes = plan::monta::state_bytes(static_cast<double>(size.parameters - size.expert_parameters),
                                              static_cast<double>(size.expert_parameters),
                                              {.p = degree(Axis::pp),
                                               .t = degree(Axis::tp),
                                               .e = degree(Axis::ep),
                                               .d = degree(Axis::dp) * degree(Axis::cp),
                                               .d_experts = degree(Axis::edp)},
                                              recipe.parallel.zero);
  return bytes.non_moe + bytes.moe;
}

void print_row(const Recipe& recipe, int ranks) {
  const auto memory = measure(recipe, ranks);
  const auto formula = plan::estimate_memory(recipe, {}, mesh::Layout(recipe.parallel.sizes(), ranks), 0);
  fmt::print("| {} | {} |", recipe.parallel.zero,
             recipe.optim.grad_dtype == optim::GradientDtype::bf16 ? "bf16" : "f32");
  double counted_sum = 0, predicted_sum = 0;
  const auto cell = [](double counted, double predicted) {
    fmt::print(" {:.3f} / {:.3f} ({:+.2f}%) |", counted / 1e6, predicted / 1e6, 100 * (counted / predicted - 1));
  };
  for (const auto& [category, predicted] : {std::pair{Category::parameter, formula.weights},
                                            {Category::gradient, formula.gradients},
                                            {Category::optimizer, formula.optimizer}}) {
    const auto counted = static_cast<double>(memory.peak_in(category));
    cell(counted, predicted);
    counted_sum += counted, predicted_sum += predicted;
  }
  cell(counted_sum, predicted_sum);
  fmt::print(" {:.3f} | {:.3f} |\n", monta(recipe, ranks) / 1e6,
             static_cast<double>(memory.peak_in(Category::communication)) / 1e6);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: parameter_memory RECIPE RANKS [key.path=value ...]\n");
    return 2;
  }
  const int ranks = std::atoi(argv[2]);
  std::vector<std::string> overrides(argv + 3, argv + argc);
  const auto recipe_with = [&](int zero, const char* gradients) {
    std::vector<std::string> all = overrides;
    all.push_back(base::cat("parallel.zero=", zero));
    all.push_back(base::cat("optim.grad_dtype=", gradients));
    const Recipe recipe = load_recipe(config::load(argv[1], all), Registry(), ranks);
    require_no_stages(recipe, argv[1]);
    return recipe;
  };
  fmt::print(
      "Memory of one rank of {} in MB: counted / by formula (relative difference). *MoNTA* is MoNTA's Table 3, which "
      "assumes bf16 gradients.\n"
      "*In flight* are gathered weights, gradients on the way to their owners, and all other communication.\n\n",
      ranks);
  fmt::print(
      "| ZeRO | gradients in | weights | gradients | optimizer | total | MoNTA | in flight |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const char* gradients : {"f32", "bf16"}) {
    if (std::string_view(gradients) == "bf16" && recipe_with(0, "f32").train.precision != Precision::bf16) break;
    for (int zero = 0; zero <= 3; ++zero) print_row(recipe_with(zero, gradients), ranks);
  }
  return 0;
}

}  // namespace
}  // namespace hexad::verify

int main(int argc, char** argv) {
  try {
    return hexad::verify::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
