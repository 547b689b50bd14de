// The ranks' groups by mesh axis, in the two views of parallel/mesh/layout.h.
#pragma once

#include <array>
#include <memory>

#include "parallel/comm/process_group.h"
#include "parallel/mesh/layout.h"

namespace hexad::mesh {

using comm::ProcessGroup;

class Mesh {
 public:
  /// A collective call over `world`, which outlives the mesh. Throws Error(usage) as Layout does, on all ranks alike.
  Mesh(const ProcessGroup& world, const Sizes& sizes);

  const ProcessGroup& world() const { return world_; }
  const Layout& layout() const { return layout_; }
  /// This rank's group along `axis`, ranked by coordinate; of one rank where the axis has size one.
  const ProcessGroup& operator[](Axis axis) const { return *axes_[static_cast<size_t>(axis)]; }
  /// The ranks over which gradients of a view's parameters are summed: dense dp x cp, experts edp.
  const ProcessGroup& replicas(MeshView view) const {
    return view == MeshView::dense ? *dense_replicas_ : (*this)[Axis::edp];
  }
  int size(Axis axis) const { return layout_.size(axis); }
  int coordinate(Axis axis) const { return layout_.coordinate(axis, world_.rank()); }

 private:
  const ProcessGroup& world_;
  Layout layout_;
  std::array<std::unique_ptr<ProcessGroup>, axis_count> axes_;
  std::unique_ptr<ProcessGroup> dense_replicas_;
};

}  // namespace hexad::mesh
