#include "optim/gradient_norm.h"

namespace hexad::optim {

using namespace base;

void squared_gradient_norm(const Tensor& out, ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream) {
  const auto& k = kernels::kernels(parameters.device());
  k.pointwise.fill(stream, out, 0.0);
  for (const auto& p : parameters) {
    require(p->sharded() || mesh.world().size() == 1, "[norm] the shares of ", p->name(),
            " have not been assigned to the ranks; expected a dp::BucketPlan of these parameters");
    if (!p->counts() || !p->trainable()) continue;
    const FlatRange share = p->share(), owned = p->owned();
    const Tensor gradient = p->owned_gradient(stream);
    k.optimizer.squared_norm(stream, out, gradient.slice(0, share.begin - owned.begin, share.end - owned.begin),
                             kernels::Write::add);
  }
}

}  // namespace hexad::optim
