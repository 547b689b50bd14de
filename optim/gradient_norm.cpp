#include "optim/gradient_norm.h"

#include <array>
#include <cmath>
#include <map>

namespace hexad::optim {
namespace {

constexpr std::array axes{Axis::dp, Axis::cp, Axis::tp, Axis::edp, Axis::ep, Axis::etp};

uint32_t bit(Axis axis) { return 1u << static_cast<uint32_t>(axis); }

}  // namespace

double global_gradient_norm(ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream) {
  const auto& k = kernels::kernels(parameters.device()).optimizer;
  // sums[mask]: parameters that are sharded over just the axes in `mask`.
  std::map<uint32_t, double> sums;
  for (const auto& p : parameters) {
    uint32_t mask = 0;
    for (const Shard& s : p->placement().shards) mask |= bit(s.axis);
    double& sum = sums[mask];  // made even without a gradient: the ranks of a stage reduce the same list
    if (p->has_gradient()) sum += k.squared_norm(stream, p->gradient());
  }
  double total = 0;
  for (auto [mask, sum] : sums) {
    for (Axis axis : axes)
      if (mask & bit(axis)) sum = mesh[axis].all_reduce_value(sum, comm::Reduce::sum, parameters.device());
    total += sum;
  }
  // Stages hold other parameters, and perhaps no experts at all: they meet once, with what each has summed.
  return std::sqrt(mesh[Axis::pp].all_reduce_value(total, comm::Reduce::sum, parameters.device()));
}

}  // namespace hexad::optim
