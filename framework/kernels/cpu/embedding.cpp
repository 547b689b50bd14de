#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void forward(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids) {
  stream.run([=] {
    with_dtype<float, bf16, double>("embedding", table.dtype(), [&]<class T>() {
      const Rows<T> Table(table), Y(out);
      require(Y.count() == ids.numel() && Y.width() == Table.width(), "[embedding] out has shape ", out.shape(),
              " for ", ids.numel(), " ids of a table ", table.shape(),
              "; expected a row of the table's width for each id");
      const int32_t* id = checked_indices<int32_t>("embedding", "ids", ids, 0, Table.count());
      parallel_for(Y.count(), row_grain(Y.width()), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) std::copy_n(Table[id[t]], Y.width(), Y[t]);
      });
    });
  });
}

// Each row of the table is updated by one thread, which adds the gradients of the row's tokens in order.
void backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids) {
  stream.run([=] {
    with_dtype<float, bf16, double>("embedding", dout.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> DY(dout);
      const Rows<A> DTable(dtable);
      require(DY.count() == ids.numel() && DY.width() == DTable.width(), "[embedding] dout has shape ", dout.shape(),
              " for ", ids.numel(), " ids of a table ", dtable.shape(),
              "; expected a row of the table's width for each id");
      const int32_t* id = checked_indices<int32_t>("embedding", "ids", ids, -1, DTable.count());
      const auto axpy = choose<A>(v3::pointwise_loops, v4::pointwise_loops).axpy.template from<T>();
      const int64_t owners = thread_count();
      parallel_for(owners, row_grain(dout.numel() / owners), [&](int64_t begin, int64_t end) {
        for (int64_t t = 0; t < DY.count(); ++t)
          if (id[t] >= 0 && id[t] % owners >= begin && id[t] % owners < end) axpy(DTable[id[t]], 1, DY[t], DY.width());
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const EmbeddingKernels EmbeddingKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
