#include "tools/train/report/rank_log.h"

#include <unistd.h>

#include <fmt/format.h>

#include "tools/train/process/version.h"

namespace hexad::train {

std::string describe_rank(const Recipe& recipe, const comm::World& world) {
  const mesh::Layout layout(recipe.parallel.sizes(), world.size());
  std::string place;
  for (int a = 0; a < mesh::axis_count; ++a) {
    const auto axis = static_cast<mesh::Axis>(a);
    place +=
        fmt::format("{}{} {}", place.empty() ? "" : ", ", mesh::name_of(axis), layout.coordinate(axis, world.rank()));
  }
  return fmt::format("hexad {} ({}), rank {} of {}, host {}, pid {}, at {} of {}", version, architecture, world.rank(),
                     world.size(), world.node_name(), ::getpid(), place, describe(recipe.parallel, world.size()));
}

}  // namespace hexad::train
