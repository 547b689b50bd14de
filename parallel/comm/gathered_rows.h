// All-gathering of tensors that have equally many rows on every rank.
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

using base::Shape;
using device::Category;

/// The ranks' rows, in rank order: mine [n, ...] to [size n, ...]. On return `stream` waits for them.
inline Tensor all_gather_rows(const Tensor& mine, const ProcessGroup& group, Stream& stream,
                              Category category = Category::communication) {
  Shape shape = mine.shape();
  shape[0] *= group.size();
  Tensor all = Tensor::empty(shape, mine.dtype(), mine.device(), category);
  stream.wait(group.all_gather(all, mine, stream));
  return all;
}

}  // namespace hexad::comm
