// All-gather of tensors that have the same number of rows on every rank.
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

using base::Shape;
using device::Category;

/// Returns the rows of all ranks in the order of the ranks: `mine` is [n, ...], and the result is [size * n, ...].
/// `stream` waits for the result.
inline Tensor all_gather_rows(const Tensor& mine, const ProcessGroup& group, Stream& stream,
                              Category category = Category::communication) {
  Shape shape = mine.shape();
  shape[0] *= group.size();
  Tensor all = Tensor::empty(shape, mine.dtype(), mine.device(), category);
  stream.wait(group.all_gather(all, mine, stream));
  return all;
}

}  // namespace hexad::comm
