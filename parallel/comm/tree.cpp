#include "parallel/comm/tree.h"

#include <algorithm>

namespace hexad::comm {

TreePlace tree_place(int rank, int root, int size) {
  const int mine = (rank - root + size) % size;
  const auto rank_of = [&](int number) { return (number + root) % size; };
  // The subtree of number n ends before the first larger number whose lowest set bit is higher than the lowest set bit
  // of n. The subtree ends at the end of the tree if there is no such number.
  const int lowest_bit = mine & -mine;
  const int end = mine == 0 ? size : std::min(mine + lowest_bit, size);
  TreePlace place{mine == 0 ? -1 : rank_of(mine - lowest_bit), {rank, mine, end}};
  for (int distance = 1; mine + distance < end; distance *= 2)
    place.children.push_back({rank_of(mine + distance), mine + distance, std::min(mine + 2 * distance, end)});
  return place;
}

}  // namespace hexad::comm
