#include <numeric>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

void mask(Stream& stream, const Tensor& ids, const Tensor& valid) {
  stream.run([=] {
    const int64_t tokens = ids.dim(0), slots = ids.dim(1);
    require_flat("mask", "ids", ids, tokens * slots);
    require_flat("mask", "valid", valid, tokens);
    auto* id = ids.data<int32_t>();
    const auto* keep = valid.data<uint8_t>();
    for (int64_t t = 0; t < tokens; ++t)
      if (!keep[t]) std::fill_n(id + t * slots, slots, -1);
  });
}

// Sorts by counting. The counts of the previous experts determine the first row of an expert. The expert's slots take
// consecutive rows in order.
void sort(Stream& stream, const Tensor& tokens, const Tensor& rows, const Tensor& offsets, const Tensor& ids) {
  stream.run([=] {
    const int64_t slots = ids.numel(), top_k = ids.dim(1), experts = offsets.numel() - 1;
    require_flat("sort", "offsets", offsets, std::max<int64_t>(experts, 0) + 1);
    require_flat("sort", "rows", rows, slots);
    require_flat("sort", "tokens", tokens, slots);
    const int32_t* id = checked_indices<int32_t>("sort", "ids", ids, -1, experts);
    auto* offset = offsets.data<int64_t>();
    std::fill_n(offset, experts + 1, 0);
    for (int64_t slot = 0; slot < slots; ++slot)
      if (id[slot] >= 0) ++offset[id[slot] + 1];
    std::partial_sum(offset, offset + experts + 1, offset);
    std::vector<int64_t> next(offset, offset + experts);
    auto *row = rows.data<int64_t>(), *token = tokens.data<int64_t>();
    for (int64_t slot = 0; slot < slots; ++slot) {
      row[slot] = id[slot] < 0 ? -1 : next[id[slot]]++;
      if (row[slot] >= 0) token[row[slot]] = slot / top_k;
    }
    std::fill(token + offset[experts], token + slots, -1);
  });
}

void keys(Stream& stream, const Tensor& keys, const Tensor& ids, const Tensor& chunk_of, int64_t experts,
          int64_t chunks) {
  stream.run([=] {
    const int64_t tokens = ids.dim(0), top_k = ids.dim(1);
    require_flat("keys", "ids", ids, tokens * top_k);
    require_flat("keys", "keys", keys, tokens * top_k);
    if (chunk_of.defined()) require_flat("keys", "chunk_of", chunk_of, experts);
    const int32_t* of =
        chunk_of.defined() ? checked_indices<int32_t>("keys", "chunk_of", chunk_of, 0, chunks) : nullptr;
    const int32_t* id = ids.data<int32_t>();
    auto* key = keys.data<int32_t>();
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t slot = t * top_k; slot < (t + 1) * top_k; ++slot) {
        const int32_t e = id[slot];
        if (e == -1)
          key[slot] = -1;
        else if (e < 0 || e >= experts)
          key[slot] = static_cast<int32_t>(chunks * experts);
        else
          key[slot] = static_cast<int32_t>((of ? of[e] : t * chunks / tokens) * experts + e);
      }
  });
}

void iota(Stream& stream, const Tensor& out, int64_t first) {
  stream.run([=] {
    require_flat("iota", "out", out, out.numel());
    auto* y = out.data<int64_t>();
    std::iota(y, y + out.numel(), first);
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const SlotKernels SlotKernels::of_cpu{.mask = cpu::mask, .sort = cpu::sort, .keys = cpu::keys, .iota = cpu::iota};

}  // namespace hexad::kernels
