#include <algorithm>
#include <limits>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

void shift(Stream& stream, const Tensor& out, const Tensor& x, int64_t by) {
  stream.run([=] {
    require_flat("shift", "x", x, x.numel());
    require_flat("shift", "out", out, x.numel());
    with_dtype<int32_t, int64_t>("shift", x.dtype(), [&]<class I>() {
      parallel_elements(x.numel(), [in = x.data<I>(), y = out.data<I>(), by](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = in[i] < 0 ? in[i] : static_cast<I>(in[i] + by);
      });
    });
  });
}

void within(Stream& stream, const Tensor& out, const Tensor& x, int64_t first, int64_t count) {
  stream.run([=] {
    require_flat("within", "x", x, x.numel());
    require_flat("within", "out", out, x.numel());
    with_dtype<int32_t, int64_t>("within", out.dtype(), [&]<class I>() {
      parallel_elements(x.numel(), [=, in = x.data<int32_t>(), y = out.data<I>()](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = in[i] - first;
          y[i] = at >= 0 && at < count ? static_cast<I>(at) : I(-1);
        }
      });
    });
  });
}

void shift_parts(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& parts) {
  stream.run([=] {
    require_flat("shift_parts", "parts", parts, 2 * parts.dim(1));
    const int64_t count = parts.dim(1);
    const auto *ends = parts.data<int64_t>(), *by = ends + count;
    const int64_t* in = checked_indices<int64_t>("shift_parts", "x", x, std::numeric_limits<int64_t>::min(),
                                                 count > 0 ? ends[count - 1] : 0);
    require_flat("shift_parts", "out", out, x.numel());
    parallel_elements(x.numel(), [=, y = out.data<int64_t>()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = in[i] < 0 ? in[i] : in[i] + by[std::upper_bound(ends, ends + count, in[i]) - ends];
    });
  });
}

void iota_parts(Stream& stream, const Tensor& out, const Tensor& parts) {
  stream.run([=] {
    const int64_t n = out.numel(), count = parts.dim(1);
    require_flat("iota_parts", "out", out, n);
    require_flat("iota_parts", "parts", parts, 2 * count);
    const auto *ends = parts.data<int64_t>(), *by = ends + count;
    const int64_t end_of_all = count > 0 ? ends[count - 1] : 0;
    require(end_of_all == n, "[iota_parts] the last part ends at ", end_of_all, "; expected ", n,
            ", the number of elements of out");
    parallel_elements(n, [=, y = out.data<int64_t>()](int64_t begin, int64_t end) {
      int64_t i = begin;
      for (int64_t p = std::upper_bound(ends, ends + count, begin) - ends; i < end; ++p)
        for (const int64_t last = std::min(end, ends[p]); i < last; ++i) y[i] = i + by[p];
    });
  });
}

void take(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  stream.run([=] {
    require_flat("take", "x", x, x.numel());
    require_flat("take", "out", out, index.numel());
    const int64_t* at = checked_indices<int64_t>("take", "index", index, 0, x.numel());
    parallel_elements(index.numel(), [=, in = x.data<int64_t>(), y = out.data<int64_t>()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = in[at[i]];
    });
  });
}

void inverse(Stream& stream, const Tensor& out, const Tensor& x) {
  stream.run([=] {
    require_flat("inverse", "out", out, out.numel());
    const int64_t* at = distinct_indices("inverse", "x", x, -1, out.numel());
    auto* y = out.data<int64_t>();
    for (int64_t i = 0; i < x.numel(); ++i)
      if (at[i] >= 0) y[at[i]] = i;
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const IndexKernels IndexKernels::of_cpu{.shift = cpu::shift,
                                        .within = cpu::within,
                                        .shift_parts = cpu::shift_parts,
                                        .iota_parts = cpu::iota_parts,
                                        .take = cpu::take,
                                        .inverse = cpu::inverse};

}  // namespace hexad::kernels
