// Traffic of the groups that a layout gives a rank.
#pragma once

#include <vector>

#include "parallel/comm/device_group.h"
#include "parallel/mesh/mesh.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns the traffic of all groups of this rank of `world`, without duplicates. The traffic consists of the
/// collectives of the mesh's groups, the collectives of the groups that gather weights under zero 3, and the messages
/// of pipelines, sequences and tensor ranks. `shared` is as in Mesh. Does not communicate.
std::vector<comm::GroupTraffic> traffic_of_groups(const Recipe& recipe, const comm::ProcessGroup& world,
                                                  const mesh::SharedPieces& shared);

}  // namespace hexad::train
