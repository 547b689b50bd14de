#include "parallel/ep/slot_order.h"

#include <algorithm>

#include "parallel/ep/offsets.h"

namespace hexad::ep {

void Cutting::check(int64_t experts, int ranks) const {
  require(ranks > 0 && experts % ranks == 0, "[ep] ", experts, " experts over ", ranks, " ranks");
  const int64_t local = experts / ranks;
  require(chunks >= 1, "[ep] ", chunks, " chunks");
  require((by != By::peers && by != By::phases) || chunks <= ranks, "[ep] ", chunks, " chunks of ", ranks, " peers");
  require(by != By::experts || chunks <= local, "[ep] ", chunks, " chunks of ", local, " experts a rank");
}

int Cutting::chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const {
  const int distance = (static_cast<int>(expert / local_experts) - rank + ranks) % ranks;
  switch (by) {
    case By::tokens:
      return static_cast<int>(token * chunks / tokens);
    case By::peers:
      return distance * chunks / ranks;
    case By::phases:
      return distance % chunks;
    case By::experts:
      return static_cast<int>(expert % local_experts * chunks / local_experts);
  }
  return 0;
}

SlotOrder order_slots(const Tensor& ids, int64_t experts, const Cutting& cutting, int rank, int ranks, RowOf row_of) {
  cutting.check(experts, ranks);
  const bool by_slot = row_of == RowOf::slot;
  const int64_t slots = ids.numel(), top_k = ids.dim(1), tokens = ids.dim(0), local = experts / ranks;
  const int64_t buckets = by_slot ? experts : ranks, width = by_slot ? 1 : std::min(top_k, local);
  const int32_t* id = ids.data<int32_t>();
  // Of each slot: where its row is sorted to, [chunks, buckets]; -1: dropped.
  std::vector<int64_t> bucket(static_cast<size_t>(slots), -1);
  // The slot that its row was made for: of the token's slots in the bucket the first.
  const auto maker = [&](int64_t slot) {
    if (by_slot) return slot;
    const auto own = bucket.begin() + slot;
    return std::find(bucket.begin() + slot / top_k * top_k, own, *own) - bucket.begin();
  };
  SlotOrder order;
  order.experts = experts;
  order.counts.assign(static_cast<size_t>(cutting.chunks * experts), 0);
  order.rows_to.assign(static_cast<size_t>(cutting.chunks * ranks), 0);
  std::vector<int64_t> sizes(static_cast<size_t>(cutting.chunks * buckets), 0);
  for (int64_t i = 0; i < slots; ++i) {
    require(id[i] >= -1 && id[i] < experts, "[ep] slot ", i, " names expert ", id[i], " of ", experts);
    if (id[i] < 0) continue;
    const int64_t c = cutting.chunk(i / top_k, tokens, id[i], local, rank, ranks), owner = id[i] / local;
    const int64_t b = c * buckets + (by_slot ? id[i] : owner);
    bucket[static_cast<size_t>(i)] = b;
    ++order.counts[static_cast<size_t>(c * experts + id[i])];
    if (maker(i) != i) continue;
    ++sizes[static_cast<size_t>(b)];
    ++order.rows_to[static_cast<size_t>(c * ranks + owner)];
  }
  std::vector<int64_t> next = offsets_of(sizes);
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
    const int64_t b = bucket[static_cast<size_t>(i)];
    if (b < 0) continue;
    const int64_t made_for = maker(i);
    if (made_for == i) {
      row[i] = next[static_cast<size_t>(b)]++;
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
