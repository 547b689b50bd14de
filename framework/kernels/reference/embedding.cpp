#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids) {
  stream.run([=] {
    const Array Table = load(table), Id = load(ids);
    Array Y = zeros(out);
    for (int64_t t = 0; t < Y.rows; ++t)
      for (int64_t d = 0; d < Y.columns; ++d) Y(t, d) = Table(index_at(Id, t), d);
    store(out, Y);
  });
}

void backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids) {
  stream.run([=] {
    const Array DY = load(dout), Id = load(ids);
    Array DTable = load(dtable);
    for (int64_t t = 0; t < DY.rows; ++t)
      for (int64_t d = 0; index_at(Id, t) >= 0 && d < DY.columns; ++d) DTable(index_at(Id, t), d) += DY(t, d);
    store(dtable, DTable);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const EmbeddingKernels EmbeddingKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
