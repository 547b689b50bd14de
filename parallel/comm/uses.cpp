#include "parallel/comm/uses.h"

namespace hexad::comm {

using Kind = Operation::Kind;

namespace {

// Maximum size, in bytes, of the result of an all_gather that may use the connections of exchanges. The largest such
// results are counts of routing: 8 bytes x ranks x experts x chunks, which is 8 MiB for 128 ranks, 512 experts and 16
// chunks. A larger result would connect the ranks for gathers during a step; no estimate of memory includes such
// connections.
constexpr int64_t most_gathered_by_exchange = 16 << 20;

}  // namespace

Use use_of(const Operation& op) {
  switch (op.kind) {
    case Kind::all_reduce:
      if (op.reduce != Reduce::sum || !base::is_floating(op.out.dtype())) return Use::counts;
      return op.out.bytes() < least_large_sum ? Use::small_sums : Use::sums;
    case Kind::reduce_scatter:
      return Use::shares;
    case Kind::all_gather:
    case Kind::broadcast:
      return Use::gathers;
    case Kind::all_to_all:
      return Use::exchanges;
    case Kind::send:
    case Kind::receive:
      return Use::messages;
    case Kind::barrier:
      break;
  }
  base::fail_invariant("[uses] a barrier moves no tensors; expected an operation with tensors");
}

Use use_over_nccl(const Operation& op, Uses connected) {
  const bool by_exchange = op.kind == Kind::all_gather && op.out.bytes() <= most_gathered_by_exchange &&
                           connected.has(Use::exchanges) && !connected.has(Use::gathers);
  return by_exchange ? Use::exchanges : use_of(op);
}

Uses with_sums_in_order(Uses uses) {
  constexpr Uses sums{Use::sums, Use::small_sums, Use::shares};
  const Uses others = uses - sums;
  return others == uses ? uses : others | Use::exchanges;
}

}  // namespace hexad::comm
