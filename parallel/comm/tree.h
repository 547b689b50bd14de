// Binomial trees, along which operations of large groups reach all ranks in few rounds. Contains only arithmetic.
#pragma once

#include <vector>

namespace hexad::comm {

/// The ranks with numbers [begin, end). Numbers count from the root of a tree: rank r has number (r - root) mod size.
struct Subtree {
  int rank;  // rank with the number `begin`
  int begin, end;
};

/// Place of a rank in a binomial tree. The subtree of a rank has consecutive numbers, and that rank is the first. A
/// tree of `size` ranks has at most 1 + log2(size) levels.
struct TreePlace {
  int parent;                       // rank of the parent; -1 for the root
  Subtree own;                      // subtree of this rank
  std::vector<Subtree> children{};  // in ascending order of numbers, without gaps between them
};

/// Returns the place of rank `rank` in the tree of `size` ranks whose root is rank `root`.
TreePlace tree_place(int rank, int root, int size);

}  // namespace hexad::comm
