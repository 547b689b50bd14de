#include "parallel/ep/slot_order.h"

#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"
#include "parallel/ep/host_order.h"
#include "parallel/ep/received.h"

namespace hexad::ep {

using namespace base;
using namespace tensor;
namespace {

Tensor table(const Shape& shape, Dtype dtype, Device device) {
  return Tensor::empty(shape, dtype, device, Category::communication);
}

// Returns the chunk of each expert, [experts] i32. Returns an undefined tensor for Chunking::By::tokens: the kernel
// slots.keys then computes the chunk from the index of the token.
Tensor chunks_of_experts(const Ordering& o, int rank, Device device) {
  if (o.chunking.by == Chunking::By::tokens) return {};
  std::vector<int32_t> chunks;
  for (int64_t e = 0; e < o.experts; ++e)
    chunks.push_back(o.chunking.chunk(0, 1, e, o.experts / o.ranks, rank, o.ranks));
  return Tensor::from<int32_t>(chunks, {o.experts}, device, Category::communication);
}

// Throws an error if an element is neither the id of an expert nor -1.
void check_ids(const Tensor& known, const Ordering& o) {
  if (o.senders) return check_gathered_ids(known, o.experts, *o.senders);
  const int32_t* id = known.data<int32_t>();
  for (int64_t i = 0; i < known.numel(); ++i)
    require(id[i] >= -1 && id[i] < o.experts, "[ep] slot ", i, " names expert ", id[i],
            ", expected at least -1 and less than ", o.experts);
}

// Throws an error if a token names an expert twice. `known` are valid ids on the host.
void check_distinct(const Tensor& known) {
  const int64_t top_k = known.dim(1);
  const int32_t* id = known.data<int32_t>();
  for (int64_t i = 0; i < known.numel(); ++i) {
    const int32_t* token = id + i / top_k * top_k;
    require(id[i] < 0 || std::find(token, id + i, id[i]) == id + i, "[ep] token ", i / top_k, " names expert ", id[i],
            " twice, expected different experts");
  }
}

// Sorted slots of several ranks, on the device of their ids.
struct SortedSlots {
  std::vector<Tensor> tokens;  // one [T * K] i64 per rank: token of each row, padded with -1
  std::vector<Tensor> rows;    // one [T, K] i64 per rank: row of each slot
  Tensor offsets;  // [ranks, chunks * experts + 2] i64: offsets of the rows of each chunk and expert, then of rows
                   // whose ids are no experts
};

SortedSlots sort_slots(const Tensor& ids, const Ordering& o, std::span<const int> of, Stream& stream) {
  const auto& slots = kernels::kernels(ids.device()).slots;
  const auto parts = static_cast<int64_t>(of.size());
  const int64_t share = ids.dim(0) / parts, top_k = ids.dim(1), groups = o.chunking.chunks * o.experts + 1;
  SortedSlots sorted;
  sorted.offsets = table({parts, groups + 1}, Dtype::i64, ids.device());
  for (int64_t q = 0; q < parts; ++q) {
    sorted.tokens.push_back(table({share * top_k}, Dtype::i64, ids.device()));
    sorted.rows.push_back(table({share, top_k}, Dtype::i64, ids.device()));
    const Tensor keys = table({share, top_k}, Dtype::i32, ids.device());
    slots.keys(stream, keys, ids.slice(0, q * share, (q + 1) * share), chunks_of_experts(o, of[q], ids.device()),
               o.experts, o.chunking.chunks);
    slots.sort(stream, sorted.tokens.back(), sorted.rows.back(),
               sorted.offsets.slice(0, q, q + 1).reshape({groups + 1}), keys);
  }
  return sorted;
}

// Returns the offsets [ranks, n - 1] of all ranks of `group`, without the first offset, which is 0. `own` [1, n] are
// the offsets of this rank.
Tensor gathered(const Tensor& own, const comm::ProcessGroup& group, Stream& stream) {
  const int64_t n = own.dim(1);
  const Tensor all = table({group.size(), n - 1}, Dtype::i64, own.device());
  stream.wait(group.all_gather(all, own.reshape({n}).slice(0, 1, n), stream));
  return all;
}

// Returns the slot order of one rank, from its sorted slots.
SlotOrder order_of(const Tensor& tokens, const Tensor& rows, std::span<const int64_t> offsets, const Ordering& o) {
  const int64_t groups = o.chunking.chunks * o.experts, local = o.experts / o.ranks;
  SlotOrder order;
  order.experts = o.experts;
  order.rows_to.assign(groups / local, 0);
  for (int64_t g = 0; g < groups; ++g) {
    const size_t i = g;
    order.counts.push_back(offsets[i + 1] - offsets[i]);
    order.rows_to[g / local] += order.counts.back();
  }
  order.tokens = tokens.slice(0, 0, offsets[groups]);
  order.rows = rows;
  return order;
}

}  // namespace

void Chunking::check(int64_t experts, int ranks) const {
  require(ranks > 0 && experts % ranks == 0, "[ep] ", experts, " experts cannot be divided among ", ranks,
          " ranks; expected at least 1 rank, and an equal number of experts for each rank");
  const int64_t local = experts / ranks;
  require(chunks >= 1, "[ep] the number of chunks is ", chunks, "; expected at least 1");
  require(by != By::peers || chunks <= ranks, "[ep] the number of chunks is ", chunks,
          "; expected at most one for each of ", ranks, " peers");
  require(by != By::experts || chunks <= local, "[ep] the number of chunks is ", chunks,
          "; expected at most one for each of ", local, " experts of a rank");
}

int Chunking::chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const {
  const int distance = (static_cast<int>(expert / local_experts) - rank + ranks) % ranks;
  switch (by) {
    case By::tokens:
      return static_cast<int>(token * chunks / tokens);
    case By::peers:
      return distance * chunks / ranks;
    case By::experts:
      return static_cast<int>(expert % local_experts * chunks / local_experts);
  }
  return 0;
}

std::vector<SlotOrder> order_slots(const Tensor& ids, const Ordering& o, std::span<const int> of, Stream& stream) {
  o.chunking.check(o.experts, o.ranks);
  const auto parts = static_cast<int64_t>(of.size());
  require(parts > 0 && ids.dim(0) % parts == 0, "[ep] ", ids.dim(0), " tokens cannot be divided among ", parts,
          " ranks; expected at least 1 rank, and an equal number of tokens for each rank");
  std::vector<SlotOrder> orders;
  if (o.row_of == RowOf::token || o.capacity > 0) {
    const HostRead read = read_to_host("routing: ids", ids, stream);
    const Tensor& known = read.tensor();
    check_ids(known, o);
    if (o.capacity > 0) check_distinct(known);
    const int64_t share = ids.dim(0) / parts;
    for (int64_t q = 0; q < parts; ++q) {
      const Tensor part = known.slice(0, q * share, (q + 1) * share);
      SlotOrder& order = orders.emplace_back(o.capacity > 0 ? order_padded(part, o) : order_tokens(part, o, of[q]));
      for (Tensor* t : {&order.tokens, &order.rows, &order.row_slots})
        *t = on_device(*t, ids.device(), Category::communication);
    }
    return orders;
  }
  require(!o.counting || parts == 1, "[ep] the ranks of group ", o.counting ? o.counting->name() : "",
          " gather counts, but ", parts, " orders are made; expected one order, of this rank");
  const SortedSlots sorted = sort_slots(ids, o, of, stream);
  const HostRead read = read_to_host(
      "routing: counts", o.counting ? gathered(sorted.offsets, *o.counting, stream) : sorted.offsets, stream);
  const size_t width = sorted.offsets.dim(1);
  const std::span<const int64_t> known = read.wait<int64_t>();
  // Returns the ends of the rows of rank r. Called only if the ranks gather counts.
  const auto ends_of = [&](size_t r) { return known.subspan(r * (width - 1), width - 1); };
  for (size_t q = 0; q < of.size(); ++q) {
    const auto given = o.counting ? ends_of(o.counting->rank()) : known.subspan(q * width, width);
    std::vector<int64_t> own(o.counting ? 1 : 0, 0);
    own.insert(own.end(), given.begin(), given.end());
    if (own[width - 1] > own[width - 2]) {
      check_ids(read_to_host("routing: ids", ids, stream).tensor(), o);
      fail_invariant(cat("[ep] the counts include ", own[width - 1] - own[width - 2],
                         " ids that name no expert, but the host has found no such id; expected 0"));
    }
    orders.push_back(order_of(sorted.tokens[q], sorted.rows[q], own, o));
  }
  for (int r = 0; o.counting && r < o.counting->size(); ++r) {
    const std::vector<int64_t> message = counts_message(ends_of(r), r, *o.counting);
    std::vector<int64_t>& all = orders.front().everyones_counts;
    all.insert(all.end(), message.begin(), message.end());
  }
  if (ids.device().on_host()) check_distinct(ids);
  return orders;
}

SlotOrder order_slots(const Tensor& ids, const Ordering& ordering, int rank, Stream& stream) {
  return std::move(order_slots(ids, ordering, std::span(&rank, 1), stream).front());
}

}  // namespace hexad::ep
