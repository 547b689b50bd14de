#include "parallel/comm/uses.h"

namespace hexad::comm {

using Kind = Operation::Kind;

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

Uses with_sums_in_order(Uses uses) {
  constexpr Uses sums{Use::sums, Use::small_sums, Use::shares};
  const Uses others = uses - sums;
  return others == uses ? uses : others | Use::exchanges;
}

}  // namespace hexad::comm
