#include "parallel/cp/context_attention.h"

#include <utility>

#include "framework/base/counted.h"
#include "parallel/cp/kinds.h"

namespace hexad::cp {

using namespace autograd;
using namespace base;
namespace {

void check(const Value& q, const Value& k, const Value& v, const ContextAttention& c) {
  require(c.group != nullptr && c.group->size() == c.split.ranks && c.group->rank() == c.split.rank,
          "[cp] the split is for rank ", c.split.rank, " of ", c.split.ranks, ", but ",
          c.group ? cat("the group has rank ", c.group->rank(), " of ", c.group->size()) : "there is no group",
          "; expected a group of the same ranks");
  require(q.data.rank() == 3 && k.data.rank() == 3 && k.shape() == v.shape() && q.data.dim(2) == k.data.dim(2) &&
              k.data.dim(1) > 0 && q.data.dim(1) % k.data.dim(1) == 0,
          "[cp] q is ", q.shape(), ", k ", k.shape(), ", v ", v.shape(),
          "; expected q [R, H, C], k and v [R, G, C], H a multiple of G, and G > 0");
  const int64_t rows = c.split.rows();
  require(q.data.dim(0) == rows && k.data.dim(0) == rows, "[cp] ", c.split.sequences, " x ", c.split.length,
          " tokens on ", c.split.ranks, " ranks have ", rows, " rows per rank, but q is ", q.shape(), ", k ", k.shape(),
          "; expected this number of rows in both");
  for (const auto& [name, bounds] : {std::pair{"first", c.first}, std::pair{"last", c.last}})
    require(!bounds.defined() || (bounds.dtype() == Dtype::i32 && bounds.numel() == rows && bounds.contiguous()),
            "[cp] ", name, " is ", bounds.dtype(), " ", bounds.shape(),
            "; expected contiguous i32, with one entry for each of ", rows, " local rows");
  require(c.kind != ContextKind::ulysses || ulysses_fits(q.data.dim(1), k.data.dim(1), c.split.ranks), "[cp] ",
          counted(q.data.dim(1), "head"), " with ", counted(k.data.dim(1), "key head"), " cannot be divided among ",
          c.split.ranks, " ranks; expected a multiple of ", c.split.ranks,
          " heads, and key heads that are a multiple or a divisor of ", c.split.ranks);
}

}  // namespace

bool ulysses_fits(int64_t heads, int64_t key_heads, int ranks) {
  return heads % ranks == 0 && heads % key_heads == 0 && (key_heads % ranks == 0 || ranks % key_heads == 0);
}

Value context_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c) {
  check(q, k, v, c);
  if (c.split.ranks == 1)
    return attention(tape, q, k, v, c.first, c.last,
                     {.sequences = c.split.sequences,
                      .queries = c.split.length,
                      .keys = c.split.length,
                      .scale = c.scale,
                      .causal = c.causal,
                      .deterministic = c.deterministic,
                      .documents = c.documents,
                      .window = c.window,
                      .value_size = c.value_size},
                     c.sinks);
  switch (c.kind) {
    case ContextKind::ring:
      return ring_attention(tape, q, k, v, c);
    case ContextKind::all_gather:
      return all_gather_attention(tape, q, k, v, c);
    case ContextKind::ulysses:
      return ulysses_attention(tape, q, k, v, c);
  }
  fail_invariant(cat("[cp] the kind is ", static_cast<int>(c.kind), "; expected a ContextKind"));
}

}  // namespace hexad::cp
