#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void mask(Stream& stream, const Tensor& ids, const Tensor& valid) {
  stream.run([=] {
    const Array Valid = load(valid);
    Array Ids = load(ids);
    for (int64_t t = 0; t < Ids.rows; ++t)
      for (int64_t k = 0; k < Ids.columns; ++k)
        if (Valid[t] == 0) Ids(t, k) = -1;
    store(ids, Ids);
  });
}

void sort(Stream& stream, const Tensor& tokens, const Tensor& rows, const Tensor& offsets, const Tensor& ids) {
  stream.run([=] {
    const Array Ids = load(ids);
    Array Token = zeros(tokens), Row = zeros(rows), Offset = zeros(offsets);
    std::fill(Token.values.begin(), Token.values.end(), -1);
    std::fill(Row.values.begin(), Row.values.end(), -1);
    int64_t row = 0;
    for (int64_t e = 0; e + 1 < Offset.size(); ++e) {
      for (int64_t slot = 0; slot < Ids.size(); ++slot) {
        if (index_at(Ids, slot) != e) continue;
        Token[row] = static_cast<double>(slot / Ids.columns);
        Row[slot] = static_cast<double>(row++);
      }
      Offset[e + 1] = static_cast<double>(row);
    }
    store(tokens, Token);
    store(rows, Row);
    store(offsets, Offset);
  });
}

void keys(Stream& stream, const Tensor& keys, const Tensor& ids, const Tensor& chunk_of, int64_t experts,
          int64_t chunks) {
  stream.run([=] {
    Array Key = load(ids);
    const Array Of = chunk_of.defined() ? load(chunk_of) : Array{};
    for (int64_t t = 0; t < Key.rows; ++t)
      for (int64_t k = 0; k < Key.columns; ++k) {
        const auto e = static_cast<int64_t>(Key(t, k));
        if (e == -1) continue;
        const bool named = e >= 0 && e < experts;
        const int64_t chunk = !named ? chunks : chunk_of.defined() ? index_at(Of, e) : t * chunks / Key.rows;
        Key(t, k) = static_cast<double>(chunk * experts + (named ? e : 0));
      }
    store(keys, Key);
  });
}

void iota(Stream& stream, const Tensor& out, int64_t first) {
  stream.run([=] {
    Array Y = zeros(out);
    for (int64_t i = 0; i < Y.size(); ++i) Y[i] = static_cast<double>(first + i);
    store(out, Y);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const SlotKernels SlotKernels::of_reference{
    .mask = reference::mask, .sort = reference::sort, .keys = reference::keys, .iota = reference::iota};

}  // namespace hexad::kernels
