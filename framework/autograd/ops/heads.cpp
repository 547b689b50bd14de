#include <algorithm>

#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace kernels;
namespace {

// Returns elements [begin, end) of head `h` of x[T, H, C], as [T, end - begin] with strided rows.
Tensor columns_of_head(const Tensor& x, int64_t h, int64_t begin, int64_t end) {
  const int64_t size = x.dim(2);
  return x.reshape({x.dim(0), x.dim(1) * size}).slice(1, h * size + begin, h * size + end);
}

// Returns the sum over the heads of the first `size` elements of each head: dout[T, H, C] -> [T, size]. The sum is
// computed in the accumulator dtype and rounded to the dtype of dout.
Tensor sum_of_heads(Stream& stream, const Tensor& dout, int64_t size) {
  const KernelTable& k = kernels::kernels(dout.device());
  const int64_t tokens = dout.dim(0), heads = dout.dim(1);
  const Tensor by_head = Tensor::empty({heads, tokens, size}, dout.dtype(), dout.device());
  for (int64_t h = 0; h < heads; ++h)
    k.pointwise.copy(stream, by_head.slice(0, h, h + 1).reshape({tokens, size}), columns_of_head(dout, h, 0, size));
  const Tensor sum = Tensor::empty({tokens * size}, base::accumulator_dtype(dout.dtype()), dout.device());
  k.pointwise.fill(stream, sum, 0);
  k.bias.backward(stream, sum, by_head.reshape({heads, tokens * size}));
  const Tensor out = Tensor::empty({tokens, size}, dout.dtype(), dout.device());
  k.pointwise.copy(stream, out, sum.reshape({tokens, size}));
  return out;
}

// Returns the first `size` elements of each head of x[T, H, C], followed by zeros if C is smaller.
Tensor resized(Stream& stream, const Tensor& x, int64_t size) {
  const auto& k = kernels::kernels(x.device()).pointwise;
  const int64_t kept = std::min(x.dim(2), size);
  Tensor out = Tensor::empty({x.dim(0), x.dim(1), size}, x.dtype(), x.device());
  if (kept < size) k.fill(stream, out, 0);
  k.copy(stream, out.slice(2, 0, kept), x.slice(2, 0, kept));
  return out;
}

}  // namespace

Value join_heads(Tape& tape, const Value& shared, const Value& own) {
  require(shared.data.rank() == 2 && own.data.rank() == 3 && shared.data.dim(0) == own.data.dim(0) &&
              shared.data.dtype() == own.data.dtype(),
          "[join_heads] shared is ", shared.shape(), " ", shared.data.dtype(), ", own ", own.shape(), " ",
          own.data.dtype(), "; expected [T, P] and [T, H, N] of the same dtype");
  const auto& copy = kernels::kernels(own.device()).pointwise.copy;
  const int64_t heads = own.data.dim(1), first = shared.data.dim(1), size = first + own.data.dim(2);
  const Tensor out = Tensor::empty({own.data.dim(0), heads, size}, own.data.dtype(), own.device());
  for (int64_t h = 0; h < heads; ++h) copy(tape.stream, columns_of_head(out, h, 0, first), shared.data);
  copy(tape.stream, out.slice(2, first, size), own.data);
  return tape.record(
      "join_heads", out, {shared, own}, {}, [&copy, first, size](Backward& b, const Tensor& dout, const Saved&) {
        if (b.wants(1)) {
          const Tensor down = Tensor::empty({dout.dim(0), dout.dim(1), size - first}, dout.dtype(), dout.device());
          copy(b.stream, down, dout.slice(2, first, size));
          b.accumulate(1, down);
        }
        if (b.wants(0)) b.accumulate(0, sum_of_heads(b.stream, dout, first));
      });
}

Value resize_heads(Tape& tape, const Value& x, int64_t size) {
  require(x.data.rank() == 3 && size > 0, "[resize_heads] x is ", x.shape(), ", size ", size,
          "; expected [T, H, C] and a positive size");
  const int64_t before = x.data.dim(2);
  if (before == size) return x;
  return tape.record(
      "resize_heads", resized(tape.stream, x.data, size), {x}, {},
      [before](Backward& b, const Tensor& dout, const Saved&) { b.accumulate(0, resized(b.stream, dout, before)); });
}

}  // namespace hexad::autograd
