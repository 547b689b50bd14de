#include "framework/base/global_index.h"

#include "framework/base/error.h"

namespace hexad::base {

GlobalIndex global_index(const Shape& global, const Placement::Region& region, int64_t begin) {
  const Shape strides = global.row_major_strides();
  GlobalIndex result{.begin = begin};
  int inner = 0;  // innermost dimension that is divided
  for (int d = 0; d < global.rank(); ++d) {
    result.first += region.begin[d] * strides[d];
    if (region.size[d] != global[d]) inner = d;
  }
  int64_t runs = 1, stride = 0;
  for (int d = inner - 1; d >= 0; --d) {
    if (region.size[d] == 1) continue;
    if (runs == 1) stride = strides[d];
    require(strides[d] == stride * runs, "[global index] the region of size ", region.size, " at ", region.begin,
            " of ", global, " has runs that are not evenly spaced; expected equal distances between runs");
    runs *= region.size[d];
  }
  if (runs > 1) result.run = region.size.numel() / runs, result.stride = stride;
  return result;
}

}  // namespace hexad::base
