// Checks that the ranks of a job together own each element of a tensor exactly once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hexad::verify {

/// Ranges of elements of one tensor, in row-major order, with the ranks that own them.
class Ownership {
 public:
  /// Adds elements [begin, begin + count), which `rank` owns. Ranges may be added in any order.
  void add(int64_t begin, int64_t count, int rank);
  /// Returns the number of elements in all ranges. An element that is owned twice counts twice.
  int64_t owned() const;
  /// Returns a text about the first element that does not have exactly one owner, such as "element 5 is owned by ranks
  /// 0 and 2; expected one owner for each of its 35 elements". The tensor has `elements` elements. Returns an empty
  /// text if every element has one owner.
  std::string problem(int64_t elements) const;

 private:
  struct Range {
    int64_t begin, end;
    int rank;
  };
  std::vector<Range> ranges_;  // none is empty
};

}  // namespace hexad::verify
