// Binomial trees, along which operations of large groups reach all ranks in few rounds. Pure arithmetic.
#pragma once

#include <vector>

namespace hexad::comm {

/// Ranks [begin, end) of a group, counted from the root of a tree: rank r has the number (r - root) mod size.
struct Subtree {
  int rank;  // rank of the group at which the subtree begins
  int begin, end;
};

/// Place of a rank in a binomial tree. The subtree of a rank consists of that rank and of ranks that follow it without
/// a gap. A tree of `size` ranks has at most 1 + log2(size) levels.
struct TreePlace {
  int parent;                       // -1 at the root
  Subtree own;                      // subtree that begins at this rank
  std::vector<Subtree> children{};  // in ascending order: together, they follow this rank without a gap
};

/// Returns the place of rank `rank` in the tree of `size` ranks whose root is rank `root`.
TreePlace tree_place(int rank, int root, int size);

}  // namespace hexad::comm
