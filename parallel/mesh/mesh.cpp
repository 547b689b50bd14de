#include "parallel/mesh/mesh.h"

#include <algorithm>

namespace hexad::mesh {
namespace {

using comm::TrafficClass;

// Expert tensor parallelism interrupts computation as tensor parallelism does; replicas of experts reduce as others do.
TrafficClass traffic_of(Axis axis) {
  constexpr TrafficClass classes[] = {TrafficClass::pp, TrafficClass::dp, TrafficClass::cp, TrafficClass::tp,
                                      TrafficClass::dp, TrafficClass::ep, TrafficClass::tp};
  return classes[static_cast<size_t>(axis)];
}

// Groups are known without asking; the split agrees on how the transport tells them apart.
std::unique_ptr<ProcessGroup> group_of(const ProcessGroup& world, const std::vector<int>& members, TrafficClass traffic,
                                       std::string name) {
  const int color = *std::min_element(members.begin(), members.end());
  const auto key = std::find(members.begin(), members.end(), world.rank()) - members.begin();
  return world.split(color, static_cast<int>(key), traffic, std::move(name));
}

}  // namespace

Mesh::Mesh(const ProcessGroup& world, const Sizes& sizes) : world_(world), layout_(sizes, world.size()) {
  for (int a = 0; a < axis_count; ++a) {
    const Axis axis = static_cast<Axis>(a);
    axes_[static_cast<size_t>(a)] =
        group_of(world, layout_.members(axis, world.rank()), traffic_of(axis), std::string(name_of(axis)));
  }
  dense_replicas_ = group_of(world, layout_.replicas(MeshView::dense, world.rank()), TrafficClass::dp, "dp x cp");
}

}  // namespace hexad::mesh
