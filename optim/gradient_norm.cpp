#include "optim/gradient_norm.h"

#include <cmath>

namespace hexad::optim {

double global_gradient_norm(ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream) {
  const auto& k = kernels::kernels(parameters.device()).optimizer;
  double sum = 0;
  for (const auto& p : parameters) {
    require(p->dealt() || mesh.world().size() == 1, "[norm] no shares of ", p->name(), " were dealt to the ranks");
    if (!p->counts()) continue;
    const FlatRange share = p->share(), owned = p->owned();
    const Tensor gradient = p->owned_gradient(stream);
    sum += k.squared_norm(stream, gradient.slice(0, share.begin - owned.begin, share.end - owned.begin));
  }
  return std::sqrt(mesh.world().all_reduce_value(sum, comm::Reduce::sum, parameters.device()));
}

}  // namespace hexad::optim
