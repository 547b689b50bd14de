// Compares two formulas for the bytes of activations on the rank that needs the most: MoNTA's Table 4, and Hexad's
// estimate, which `hexad validate` prints in rounded form.
//
//   activation_memory RECIPE WORLD [key.path=value...]
//
// The attention matrix of Table 4 is omitted, because blockwise attention does not keep it. Table 4 has formulas for
// recompute none and block; other values count as none. All experts have equal loads.
#include <fmt/format.h>

#include <cstdlib>

#include "tools/plan/memory_estimate.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {
namespace {

double table_4(const Recipe& r, int64_t rows) {
  const auto k = static_cast<double>(r.model.moe.top_k), t = static_cast<double>(r.parallel.tp);
  const double shared_by = r.parallel.sp ? t : 1;  // divisor of the bytes that only sequence parallelism divides
  const double bytes =
      r.recompute == layers::Recompute::block ? 2 / shared_by : (5 + 5 * k) / shared_by + (8 + 16 * k) / t;
  return static_cast<double>(rows * r.model.hidden * r.model.layers / r.parallel.pp) * bytes;
}

}  // namespace
}  // namespace hexad::train

int main(int argc, char** argv) {
  using namespace hexad;
  char* end = nullptr;
  const int64_t world = argc > 2 ? std::strtoll(argv[2], &end, 10) : 0;
  if (world <= 0 || *end) {
    fmt::print(stderr, "usage: activation_memory RECIPE WORLD [key.path=value...]\n");
    return 2;
  }
  try {
    const std::vector<std::string> overrides(argv + 3, argv + argc);
    const train::Recipe r = train::load_recipe(config::load(argv[1], overrides), layers::Registry(), world);
    train::require_no_stages(r, argv[1]);
    fmt::print("formula\t{:.0f}\n", plan::estimate_memory(r, {}, world).activations);
    fmt::print("table_4\t{:.0f}\n", train::table_4(r, r.batch.micro * r.model.context / r.parallel.cp));
  } catch (const base::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(e.code());
  }
}
