#include "framework/kernels/cpu/families.h"
#include "framework/kernels/cpu/operands.h"

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

}  // namespace

const IndexKernels indices{.shift = shift, .within = within};

}  // namespace hexad::kernels::cpu
