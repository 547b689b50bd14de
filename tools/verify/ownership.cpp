#include "tools/verify/ownership.h"

#include <algorithm>
#include <tuple>

#include "framework/base/error.h"

namespace hexad::verify {

void Ownership::add(int64_t begin, int64_t count, int rank) {
  if (count > 0) ranges_.push_back({begin, begin + count, rank});
}

int64_t Ownership::owned() const {
  int64_t sum = 0;
  for (const Range& r : ranges_) sum += r.end - r.begin;
  return sum;
}

std::string Ownership::problem(int64_t elements) const {
  std::vector<Range> sorted = ranges_;
  std::sort(sorted.begin(), sorted.end(),
            [](const Range& a, const Range& b) { return std::tuple(a.begin, a.rank) < std::tuple(b.begin, b.rank); });
  const auto wrong = [&](int64_t element, const std::string& owners) {
    return base::cat("element ", element, " is owned by ", owners, "; expected one owner for each of its ", elements,
                     " elements");
  };
  int64_t next = 0;  // elements before `next` have one owner
  int before = 0;    // owner of element next - 1
  for (const auto& [begin, end, rank] : sorted) {
    if (begin > next) break;
    if (begin < next)
      return wrong(begin, rank == before
                              ? base::cat("rank ", rank, " twice")
                              : base::cat("ranks ", std::min(before, rank), " and ", std::max(before, rank)));
    next = end, before = rank;
  }
  return next < elements ? wrong(next, "no rank") : "";
}

}  // namespace hexad::verify
