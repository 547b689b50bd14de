#include "parallel/dp/owned.h"

namespace hexad::dp {

using namespace base;

bool in_first_group(const Parameter& parameter, const mesh::Mesh& mesh) {
  const Placement& placement = parameter.placement();
  const int first = mesh.layout().reducers(placement, mesh.world().rank()).front();
  return mesh.layout().first_holder(placement, first);
}

bool is_first_holder(const Parameter& parameter, const mesh::Mesh& mesh) {
  return parameter.owns_share_only() ? in_first_group(parameter, mesh)
                                     : mesh.layout().first_holder(parameter.placement(), mesh.world().rank());
}

}  // namespace hexad::dp
