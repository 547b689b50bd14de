#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

using K = const KernelTable&;
using S = SlotKernels;

// Ids that some slots lack: `dropped` of every seven.
Tensor ids_for(Trial& r, int64_t slots, int64_t experts, int64_t dropped) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < slots * r.size.rows; ++i)
    ids.push_back(i % 7 < dropped ? -1 : static_cast<int32_t>((i * 31 + i / 5) % experts));
  return r.values<int32_t>(ids, {r.size.rows, slots});
}

void sort(K k, Trial& r) {
  const int64_t tokens = r.size.rows;
  for (int64_t slots : {1, 2, 8})
    for (int64_t experts : {1, 5, 300})
      for (int64_t dropped : {0, 3, 7})
        k.slots.sort(r.stream, r.output({tokens * slots}, Dtype::i64), r.output({tokens, slots}, Dtype::i64),
                     r.output({experts + 1}, Dtype::i64), ids_for(r, slots, experts, dropped));
}

}  // namespace

std::vector<Case> slot_cases() {
  return {
      {"slots_mask", entry(&KernelTable::slots, &S::mask),
       [](K k, Trial& r) {
         for (int64_t slots : {1, 2, 8}) {
           const Tensor ids = r.output({r.size.rows, slots}, Dtype::i32);
           reference_table.pointwise.copy(r.host_stream, ids, ids_for(r, slots, 64, 1));
           k.slots.mask(r.stream, ids, r.integers({r.size.rows}, Dtype::u8, 3));
         }
       }},
      {"slots_sort", entry(&KernelTable::slots, &S::sort), sort},
      {"slots_iota", entry(&KernelTable::slots, &S::iota),
       [](K k, Trial& r) {
         for (int64_t first : {int64_t{0}, int64_t{-3}, int64_t{1} << 40})
           k.slots.iota(r.stream, r.output({r.size.rows * r.size.width}, Dtype::i64), first);
       }},
  };
}

}  // namespace hexad::tests
