#include "parallel/ep/host_order.h"

#include <algorithm>

#include "parallel/ep/offsets.h"

namespace hexad::ep {

using device::Category;
using namespace base;

SlotOrder order_tokens(const Tensor& ids, const Ordering& o, int rank) {
  const int64_t slots = ids.numel(), top_k = ids.dim(1), tokens = ids.dim(0), local = o.experts / o.ranks;
  const int64_t width = std::min(top_k, local), buckets = o.chunking.chunks * o.ranks;
  const int32_t* id = ids.data<int32_t>();
  SlotOrder order;
  order.experts = o.experts;
  order.joined = joins_rows(o.chunking, o.row_of);
  order.counts.assign(o.chunking.chunks * o.experts, 0);
  order.rows_to.assign(buckets, 0);
  // `maker` is the first slot of each slot's row (-1: dropped), and `chunk` the chunk of each slot. `sent_in` and
  // `returns_in` are the chunks in which a row is sent and returns, at the index of its first slot.
  std::vector<int64_t> maker(slots, -1), chunk(slots, 0), sent_in(slots, 0), returns_in(slots, 0);
  const auto to = [&](int64_t slot) { return id[slot] / local; };
  for (int64_t i = 0; i < slots; ++i) {
    if (id[i] < 0) continue;
    chunk[i] = o.chunking.chunk(i / top_k, tokens, id[i], local, rank, o.ranks);
    ++order.counts[chunk[i] * o.experts + id[i]];
    int64_t m = i / top_k * top_k;
    while (m < i && (maker[m] != m || to(m) != to(i))) ++m;
    maker[i] = m;
    if (m == i) sent_in[i] = returns_in[i] = chunk[i];
    sent_in[m] = std::min(sent_in[m], chunk[i]);
    returns_in[m] = std::max(returns_in[m], chunk[i]);
  }
  std::vector<int64_t> returns_from(buckets, 0), of_rank(o.ranks, 0);
  for (int64_t i = 0; i < slots; ++i) {
    if (maker[i] != i) continue;
    ++order.rows_to[sent_in[i] * o.ranks + to(i)];
    ++returns_from[returns_in[i] * o.ranks + to(i)];
    ++of_rank[to(i)];
  }
  std::vector<int64_t> next = offsets_of(returns_from), next_sent = offsets_of(order.rows_to),
                       next_of_rank = offsets_of(of_rank);
  const int64_t rows = next.back();
  if (order.joined) {
    order.returns_from = std::move(returns_from);
    order.sent.assign(rows, 0), order.by_rank.assign(rows, 0);
  }
  const auto table = [&](const Shape& shape, Dtype dtype) {
    return Tensor::empty(shape, dtype, ids.device(), Category::communication);
  };
  order.tokens = table({rows}, Dtype::i64);
  order.rows = table(ids.shape(), Dtype::i64);
  order.row_slots = table({rows, width}, Dtype::i64);
  order.row_experts = table(order.row_slots.shape(), Dtype::i32);
  std::fill_n(order.row_slots.data<int64_t>(), order.row_slots.numel(), -1);
  std::fill_n(order.row_experts.data<int32_t>(), order.row_experts.numel(), -1);
  int64_t *token = order.tokens.data<int64_t>(), *row = order.rows.data<int64_t>();
  for (int64_t i = 0; i < slots; ++i) {
    row[i] = -1;
    const int64_t made_for = maker[i];
    if (made_for < 0) continue;
    if (made_for == i) {
      row[i] = next[returns_in[i] * o.ranks + to(i)]++;
      token[row[i]] = i / top_k;
      if (order.joined) {
        order.sent[next_sent[sent_in[i] * o.ranks + to(i)]++] = row[i];
        order.by_rank[next_of_rank[to(i)]++] = row[i];
      }
    }
    int64_t* with = order.row_slots.data<int64_t>() + row[made_for] * width;
    int32_t* experts = order.row_experts.data<int32_t>() + row[made_for] * width;
    const int64_t place = std::find(with, with + width, -1) - with;
    const auto expert = static_cast<int32_t>(id[i] % local);
    require(std::find(experts, experts + place, expert) == experts + place, "[ep] token ", i / top_k, " names expert ",
            id[i], " twice, expected different experts");
    with[place] = i;
    experts[place] = expert;
  }
  return order;
}

}  // namespace hexad::ep
