// Order in which blocks of threads compute the tiles of a grouped weight gradient. A card starts the blocks of a launch
// in the order of their numbers, each as soon as a multiprocessor has room. So the number of a block is a ticket: the
// next free multiprocessor computes the tile of the next ticket.
#pragma once

#include <cstdint>

#include "framework/kernels/cuda/products/group_order.h"

namespace hexad::kernels::cuda {

/// Tile (row, column) of the weight gradient of a group.
struct WeightTile {
  int64_t group, row, column;
};

/// Tiles of the weight gradients of all groups: `down` x `across` tiles for each group. `order` [groups]
/// contains the groups in the order of their tickets (order_group()).
struct WeightTiles {
  const int64_t* order;
  int64_t groups, down, across;

  constexpr int64_t of_group() const { return down * across; }
  /// Returns the number of tickets.
  constexpr int64_t count() const { return groups * of_group(); }
  /// Returns the tile with this ticket.
  constexpr WeightTile tile(int64_t ticket) const {
    const int64_t of_its_group = ticket % of_group();
    return {order[ticket / of_group()], of_its_group / across, of_its_group % across};
  }
};

/// Writes group e to its place in order[groups]. Groups with more rows come first (place_of_group()), because the sums
/// of their tiles have more terms. A multiprocessor that began such a tile late would finish last. The calls for all
/// groups may run at the same time. `offsets` is [groups + 1].
constexpr void order_group(int64_t* order, int64_t e, const int64_t* offsets, int64_t groups) {
  order[place_of_group(GroupedPass::weight_gradient, e, offsets, groups)] = e;
}

}  // namespace hexad::kernels::cuda
