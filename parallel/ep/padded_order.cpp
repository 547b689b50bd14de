#include "parallel/ep/host_order.h"

#include <algorithm>
#include <cmath>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "parallel/ep/offsets.h"

namespace hexad::ep {

using device::Category;
using namespace base;

SlotOrder order_padded(const Tensor& ids, const Ordering& o) {
  require(o.chunking.chunks == 1 && o.row_of == RowOf::slot, "[ep] padding was requested for ",
          counted(o.chunking.chunks, "chunk"), " of ", enum_name(o.row_of), " rows; expected one chunk of slot rows");
  const int64_t slots = ids.numel(), top_k = ids.dim(1), local = o.experts / o.ranks;
  const int32_t* id = ids.data<int32_t>();
  const double mean = static_cast<double>(slots) / static_cast<double>(o.experts);
  const auto share = static_cast<int64_t>(std::ceil(o.capacity * mean));
  SlotOrder order;
  order.experts = o.experts;
  order.counts.assign(o.experts, 0);
  for (int64_t i = 0; i < slots; ++i)
    if (id[i] >= 0) ++order.counts[id[i]];
  order.rows_to.assign(o.ranks, 0);
  for (int64_t e = 0; e < o.experts; ++e) {
    order.counts[e] = std::max(order.counts[e], share);
    order.rows_to[e / local] += order.counts[e];
  }
  std::vector<int64_t> next = offsets_of(order.counts);
  const auto table = [&](const Shape& shape, int64_t value) {
    const Tensor t = Tensor::empty(shape, Dtype::i64, ids.device(), Category::communication);
    std::fill_n(t.data<int64_t>(), t.numel(), value);
    return t;
  };
  order.tokens = table({next.back()}, 0);
  order.rows = table(ids.shape(), -1);
  order.row_slots = table({next.back(), 1}, -1);
  for (int64_t i = 0; i < slots; ++i) {
    if (id[i] < 0) continue;
    const int64_t row = next[id[i]]++;
    order.rows.data<int64_t>()[i] = row;
    order.tokens.data<int64_t>()[row] = i / top_k;
    order.row_slots.data<int64_t>()[row] = i;
  }
  return order;
}

}  // namespace hexad::ep
