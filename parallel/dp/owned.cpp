#include "parallel/dp/owned.h"

namespace hexad::dp {

using namespace base;

bool in_first_group(const Parameter& parameter, const mesh::Mesh& mesh) {
  const Placement& placement = parameter.placement();
  return mesh.layout().first_holder(placement, mesh.layout().first_reducer(placement, mesh.world().rank()));
}

bool is_first_holder(const Parameter& parameter, const mesh::Mesh& mesh) {
  return parameter.owns_share_only() ? in_first_group(parameter, mesh)
                                     : mesh.layout().first_holder(parameter.placement(), mesh.world().rank());
}

}  // namespace hexad::dp
