#include "parallel/ep/token_order.h"

#include <algorithm>

#include "parallel/ep/offsets.h"

namespace hexad::ep {

using device::Category;
using namespace base;

SlotOrder order_tokens(const Tensor& ids, const Ordering& o, int rank) {
  const int64_t slots = ids.numel(), top_k = ids.dim(1), tokens = ids.dim(0), local = o.experts / o.ranks;
  const int64_t width = std::min(top_k, local);
  const int32_t* id = ids.data<int32_t>();
  // Index of each slot's chunk and destination in [chunks, ranks]; -1: dropped.
  std::vector<int64_t> bucket(slots, -1);
  // Returns the slot that shares its row with `slot` and for which the row is made: the first slot of the token with
  // the same chunk and destination.
  const auto maker = [&](int64_t slot) {
    const auto own = bucket.begin() + slot;
    return std::find(bucket.begin() + slot / top_k * top_k, own, *own) - bucket.begin();
  };
  SlotOrder order;
  order.experts = o.experts;
  order.counts.assign(o.chunking.chunks * o.experts, 0);
  order.rows_to.assign(o.chunking.chunks * o.ranks, 0);
  for (int64_t i = 0; i < slots; ++i) {
    if (id[i] < 0) continue;
    const int64_t c = o.chunking.chunk(i / top_k, tokens, id[i], local, rank, o.ranks);
    bucket[i] = c * o.ranks + id[i] / local;
    ++order.counts[c * o.experts + id[i]];
    if (maker(i) == i) ++order.rows_to[bucket[i]];
  }
  std::vector<int64_t> next = offsets_of(order.rows_to);
  const auto table = [&](const Shape& shape, Dtype dtype) {
    return Tensor::empty(shape, dtype, ids.device(), Category::communication);
  };
  order.tokens = table({next.back()}, Dtype::i64);
  order.rows = table(ids.shape(), Dtype::i64);
  order.row_slots = table({next.back(), width}, Dtype::i64);
  order.row_experts = table(order.row_slots.shape(), Dtype::i32);
  std::fill_n(order.row_slots.data<int64_t>(), order.row_slots.numel(), -1);
  std::fill_n(order.row_experts.data<int32_t>(), order.row_experts.numel(), -1);
  int64_t *token = order.tokens.data<int64_t>(), *row = order.rows.data<int64_t>();
  for (int64_t i = 0; i < slots; ++i) {
    row[i] = -1;
    const int64_t b = bucket[i];
    if (b < 0) continue;
    const int64_t made_for = maker(i);
    if (made_for == i) {
      row[i] = next[b]++;
      token[row[i]] = i / top_k;
    }
    int64_t* with = order.row_slots.data<int64_t>() + row[made_for] * width;
    const int64_t place = std::find(with, with + width, -1) - with;
    require(place < width, "[ep] token ", i / top_k, " names an expert twice");
    with[place] = i;
    order.row_experts.data<int32_t>()[row[made_for] * width + place] = static_cast<int32_t>(id[i] % local);
  }
  return order;
}

}  // namespace hexad::ep
