#include "parallel/ep/slot_order.h"

#include "parallel/ep/offsets.h"

namespace hexad::ep {

void Cutting::check(int64_t experts, int ranks) const {
  require(ranks > 0 && experts % ranks == 0, "[ep] ", experts, " experts over ", ranks, " ranks");
  const int64_t local = experts / ranks;
  require(chunks >= 1, "[ep] ", chunks, " chunks");
  require(by != By::peers || chunks <= ranks, "[ep] ", chunks, " chunks of ", ranks, " peers");
  require(by != By::experts || chunks <= local, "[ep] ", chunks, " chunks of ", local, " experts a rank");
}

int Cutting::chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const {
  switch (by) {
    case By::tokens:
      return static_cast<int>(token * chunks / tokens);
    case By::peers: {
      const auto owner = static_cast<int>(expert / local_experts);
      return (owner - rank + ranks) % ranks * chunks / ranks;
    }
    case By::experts:
      return static_cast<int>(expert % local_experts * chunks / local_experts);
  }
  return 0;
}

SlotOrder order_slots(const Tensor& ids, int64_t experts, const Cutting& cutting, int rank, int ranks) {
  cutting.check(experts, ranks);
  const int64_t slots = ids.numel(), top_k = ids.dim(1), tokens = ids.dim(0), local = experts / ranks;
  const int32_t* id = ids.data<int32_t>();
  // Of each slot: its place in `counts`; -1: dropped.
  std::vector<int64_t> bucket(static_cast<size_t>(slots), -1);
  SlotOrder order;
  order.experts = experts;
  order.counts.assign(static_cast<size_t>(cutting.chunks * experts), 0);
  for (int64_t i = 0; i < slots; ++i) {
    require(id[i] >= -1 && id[i] < experts, "[ep] slot ", i, " names expert ", id[i], " of ", experts);
    if (id[i] < 0) continue;
    const int64_t b = cutting.chunk(i / top_k, tokens, id[i], local, rank, ranks) * experts + id[i];
    bucket[static_cast<size_t>(i)] = b;
    ++order.counts[static_cast<size_t>(b)];
  }
  std::vector<int64_t> next = offsets_of(order.counts);
  order.tokens = Tensor::empty({next.back()}, Dtype::i64, ids.device(), Category::communication);
  order.rows = Tensor::empty(ids.shape(), Dtype::i64, ids.device(), Category::communication);
  int64_t *token = order.tokens.data<int64_t>(), *row = order.rows.data<int64_t>();
  for (int64_t i = 0; i < slots; ++i) {
    const int64_t b = bucket[static_cast<size_t>(i)];
    row[i] = b < 0 ? -1 : next[static_cast<size_t>(b)]++;
    if (b >= 0) token[row[i]] = i / top_k;
  }
  return order;
}

}  // namespace hexad::ep
