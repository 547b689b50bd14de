#include "framework/kernels/reference/array.h"
#include "framework/kernels/reference/families.h"

namespace hexad::kernels::reference {
namespace {

void shift(Stream& stream, const Tensor& out, const Tensor& x, int64_t by) {
  stream.run([=] {
    Array Y = load(x);
    for (double& y : Y.values)
      if (y >= 0) y += static_cast<double>(by);
    store(out, Y);
  });
}

void within(Stream& stream, const Tensor& out, const Tensor& x, int64_t first, int64_t count) {
  stream.run([=] {
    Array Y = load(x);
    for (int64_t i = 0; i < Y.size(); ++i) {
      const int64_t at = index_at(Y, i) - first;
      Y[i] = at >= 0 && at < count ? static_cast<double>(at) : -1;
    }
    store(out, Y);
  });
}

}  // namespace

const IndexKernels indices{.shift = shift, .within = within};

}  // namespace hexad::kernels::reference
