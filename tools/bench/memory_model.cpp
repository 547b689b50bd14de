// What formulas say that a rank needs, in bytes: Hexad's own (what `hexad validate` prints, rounded) and MoNTA's.
//
//   memory_model RECIPE WORLD [key.path=value...]
//
// One line a quantity: name, tab, bytes of the rank that needs most. MoNTA's are of its Tables 3 (weights, gradients
// and optimizer states in one) and 4 (recomputation of whole blocks or none, without the attention matrix, which
// blockwise attention does not keep), with the recipe's numbers of parameters and every expert equally loaded.
#include <fmt/format.h>

#include <cstdlib>

#include "layers/model_size.h"
#include "tools/hexad/memory_estimate.h"
#include "tools/hexad/parameter_memory.h"

namespace hexad::app {
namespace {

double monta_activation_bytes(const Recipe& r, int64_t rows) {
  const auto k = static_cast<double>(r.model.moe.top_k), t = static_cast<double>(r.parallel.tp);
  const double shared_by = r.parallel.sp ? t : 1;  // of what tensor parallelism alone leaves whole
  const double bytes =
      r.recompute == layers::Recompute::block ? 2 / shared_by : (5 + 5 * k) / shared_by + (8 + 16 * k) / t;
  return static_cast<double>(rows * r.model.hidden * r.model.layers / r.parallel.pp) * bytes;
}

void print(const Recipe& r, int64_t world) {
  using base::Axis;
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world));
  const auto of = [&](Axis axis) { return static_cast<double>(layout.size(axis)); };
  const MemoryEstimate m = estimate_memory(r, world);
  const auto size = layers::model_size(r.model);
  const auto experts = static_cast<double>(size.expert_parameters);
  const MontaLayout monta{.pipeline = of(Axis::pp),
                          .tensor = of(Axis::tp),
                          .expert = of(Axis::ep),
                          .replicas = of(Axis::dp) * of(Axis::cp),
                          .expert_replicas = of(Axis::edp)};
  const auto line = [](std::string_view name, double bytes) { fmt::print("{}\t{:.0f}\n", name, bytes); };
  line("weights", m.weights);
  line("gradients", m.gradients);
  line("optimizer", m.optimizer);
  line("activations", m.activations);
  line("monta_table_3",
       monta_parameter_bytes(static_cast<double>(size.parameters) - experts, experts, monta, r.parallel.zero));
  line("monta_table_4", monta_activation_bytes(r, r.batch.micro * r.model.context / layout.size(Axis::cp)));
}

}  // namespace
}  // namespace hexad::app

int main(int argc, char** argv) {
  using namespace hexad;
  char* end = nullptr;
  const int64_t world = argc > 2 ? std::strtoll(argv[2], &end, 10) : 0;
  if (world <= 0 || *end) {
    fmt::print(stderr, "usage: memory_model RECIPE WORLD [key.path=value...]\n");
    return 2;
  }
  try {
    const std::vector<std::string> overrides(argv + 3, argv + argc);
    app::print(app::load_recipe(config::load(argv[1], overrides), layers::Registry(), world), world);
  } catch (const base::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(e.code());
  }
}
