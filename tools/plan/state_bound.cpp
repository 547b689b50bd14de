#include "tools/plan/state_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/base/dtype.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "tools/plan/number.h"

namespace hexad::plan {
namespace {

// Share of a device's memory that is not available to tensors: the runtime's context, libraries, and communication
// buffers.
constexpr double reserved_share = 0.06;

constexpr double unlimited = std::numeric_limits<double>::infinity();

}  // namespace

double tensor_memory(const Cluster& cluster) {
  if (!cluster.machine) return unlimited;
  return static_cast<double>(cluster.machine->memory) * (1 - reserved_share);
}

double tensor_memory(const Cluster& cluster, const train::Recipe& recipe) {
  const int64_t limit = recipe.memory.limit();
  return limit > 0 ? std::min(tensor_memory(cluster), number(limit)) : tensor_memory(cluster);
}

double offload_memory(const Cluster& cluster) {
  if (!cluster.machine) return unlimited;
  return static_cast<double>(cluster.machine->host_memory.value_or(0));
}

std::string limit_of_offload(const Cluster& cluster) {
  const double bytes = offload_memory(cluster);
  return base::cat("the host memory of a rank (",
                   bytes > 0 ? base::cat("machine.host_memory: ", base::human_bytes(bytes))
                             : "none, because machine.host_memory is not given",
                   ")");
}

StateBound::StateBound(const train::Recipe& r, const layers::ModelSize& size, const Cluster& cluster)
    : dense_(number(size.parameters - size.expert_parameters)),
      experts_(number(size.expert_parameters)),
      accumulators_(number(size.accumulator_parameters)) {
  const base::Dtype weights = train::dtype_of(r.train.precision), acc = base::accumulator_dtype(weights);
  const bool small = r.optim.grad_dtype == optim::GradientDtype::bf16;
  // Frozen parameters have no gradients and no optimizer state. Therefore, the bounds count only weights if
  // optim.freeze is set.
  const bool all_trained = r.optim.freeze.empty();
  weights_ = number(base::size_of(weights)), gradients_ = !all_trained ? 0 : small ? 2 : 4;
  const bool stays = r.offload.optimizer == optim::StateOffload::none && offload_memory(cluster) == 0;
  const base::Dtype kept =
      r.optim.main_weights == optim::MainWeights::rest ? weights : acc;  // the stored rest of a main weight has 16 bits
  if (!stays || !all_trained) return;
  main_weights_ = acc == weights ? 0 : number(base::size_of(kept));
  states_ = number(r.optim.states * base::size_of(r.optim.state_dtype(acc)));
}

double StateBound::layout_bytes(const train::Recipe& r, int64_t world) const {
  const train::ParallelConfig& p = r.parallel;
  const double undivided = dense_ / number(p.tp * p.pp) + experts_ / number(p.ep * p.etp.value_or(p.tp) * p.pp);
  const double divided = (dense_ + experts_) / number(world);
  const double of_optimizer = p.zero >= 1 ? divided : undivided;
  const double accumulators = accumulators_ / number(p.zero >= 1 ? world : p.tp * p.pp);
  return weights_ * (p.zero >= 3 ? divided : undivided) + gradients_ * (p.zero >= 2 ? divided : undivided) +
         states_ * of_optimizer + main_weights_ * (of_optimizer - accumulators);
}

double StateBound::lower_bound_bytes(int64_t world) const { return whole() / number(world); }

int64_t StateBound::fewest_ranks(double bytes) const {
  return std::max<int64_t>(1, std::llround(std::ceil(whole() / bytes)));
}

std::optional<StateShortfall> state_shortfall(const train::Recipe& recipe, const train::Extensions& extensions,
                                              const Cluster& cluster, int64_t world) {
  const double memory = tensor_memory(cluster);
  if (std::isinf(memory)) return {};
  const StateBound bound(recipe, layers::parameter_counts(recipe.model, extensions), cluster);
  const double bytes = bound.lower_bound_bytes(world);
  if (bytes <= memory) return {};
  return StateShortfall{.bytes = bytes,
                        .memory = memory,
                        .has_gradients = bound.has_gradients(),
                        .has_optimizer = bound.has_optimizer(),
                        .fewest_ranks = bound.fewest_ranks(memory)};
}

}  // namespace hexad::plan
