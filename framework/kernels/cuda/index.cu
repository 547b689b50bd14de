#include "framework/kernels/cuda/families.h"
#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {
namespace {

template <class I>
struct Shift {
  int64_t by;
  __device__ I operator()(I x) const { return x < 0 ? x : static_cast<I>(x + by); }
};

template <class I>
struct Within {
  int64_t first, count;
  __device__ I operator()(int32_t x) const {
    const int64_t at = x - first;
    return at >= 0 && at < count ? static_cast<I>(at) : I(-1);
  }
};

void shift(Stream& stream, const Tensor& out, const Tensor& x, int64_t by) {
  const int64_t n = x.numel();
  require_flat("shift", "x", x, n);
  require_flat("shift", "out", out, n);
  with_dtype<int32_t, int64_t>("shift", x.dtype(), [&]<class I>() {
    map("shift", stream, Shift<I>{by}, one_row(pointer<I>(out), n), one_row(pointer<I>(x), n));
  });
}

void within(Stream& stream, const Tensor& out, const Tensor& x, int64_t first, int64_t count) {
  const int64_t n = x.numel();
  require_flat("within", "x", x, n);
  require_flat("within", "out", out, n);
  with_dtype<int32_t, int64_t>("within", out.dtype(), [&]<class I>() {
    map("within", stream, Within<I>{first, count}, one_row(pointer<I>(out), n), one_row(pointer<int32_t>(x), n));
  });
}

}  // namespace

const IndexKernels indices{.shift = shift, .within = within};

}  // namespace hexad::kernels::cuda
