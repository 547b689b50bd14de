// Grouped products on tensor cores for the CUDA double. The double lists the problems as for CUTLASS's kernel and
// computes them one by one.
#include <cuda_bf16.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/products/group_order.h"
#include "framework/kernels/cuda/products/group_problem.h"
#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/tensor/device_access.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::kernels::cuda::tensor_cores {

using namespace tensor;
namespace {

// Alignments that TMA and the tiles require.
constexpr int64_t address_alignment = 16, width_alignment = 8;

void require_aligned(const char* name, const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % address_alignment != 0)
    throw std::logic_error(std::string("[double of CUTLASS] ") + name + " does not begin at a multiple of 16 bytes");
}

float value(__nv_bfloat16 x) { return __bfloat162float(x); }
float value(float x) { return x; }
void put(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }
void put(float& to, float x) { to = x; }

struct Strides {
  int64_t row, column;
};

/// Writes the product a[m, k] b[k, n] to d[m, n]. Adds the product to d instead if `add` is true.
template <class Out>
void multiply(const GroupProblem& p, const __nv_bfloat16* a, Strides sa, const __nv_bfloat16* b, Strides sb, Out* d,
              bool add) {
  std::vector<float> sums(p.n);
  for (int64_t i = 0; i < p.m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int64_t k = 0; k < p.k; ++k) {
      const float left = value(a[i * sa.row + k * sa.column]);
      for (int64_t j = 0; j < p.n; ++j) sums[j] += left * value(b[k * sb.row + j * sb.column]);
    }
    for (int64_t j = 0; j < p.n; ++j) {
      Out& to = d[i * p.n + j];
      const float sum = sums[j];
      put(to, add ? value(to) + sum : sum);
    }
  }
}

template <GroupedPass pass, class Out>
void run(Stream& stream, const Tensor& d, const Tensor& a, const Tensor& b, const Tensor& offsets, int64_t features,
         int64_t width, Write write) {
  if (features <= 0 || width <= 0 || features % width_alignment != 0 || width % width_alignment != 0)
    throw std::logic_error("[double of CUTLASS] " + std::to_string(features) + " features of width " +
                           std::to_string(width) + "; expected positive multiples of 8");
  const auto* left = static_cast<const __nv_bfloat16*>(device_raw(a));
  const auto* right = static_cast<const __nv_bfloat16*>(device_raw(b));
  auto* out = static_cast<Out*>(device_raw(d));
  require_aligned("a", left);
  require_aligned("b", right);
  require_aligned("d", out);
  const auto queue = device::cuda::cuda_stream(stream).handle();
  cuda_double::enqueue(queue.get(), [=, from = device_data<int64_t>(offsets), groups = offsets.numel() - 1] {
    std::vector<GroupProblem> list(groups);
    for (int64_t e = 0; e < groups; ++e)
      list[place_of_group(pass, e, from, groups)] = group_problem(pass, e, from[e], from[e + 1], features, width);
    for (const GroupProblem& p : list) {
      constexpr bool a_transposed = pass == GroupedPass::weight_gradient, b_transposed = pass == GroupedPass::forward;
      const Strides sa = a_transposed ? Strides{1, p.m} : Strides{p.k, 1},
                    sb = b_transposed ? Strides{1, p.k} : Strides{p.n, 1};
      multiply(p, left + p.a, sa, right + p.b, sb, out + p.d, write == Write::add);
    }
  });
}

}  // namespace

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write) {
  run<GroupedPass::forward, __nv_bfloat16>(stream, out, x, w, offsets, out.dim(-1), x.dim(-1), write);
}
void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write) {
  run<GroupedPass::input_gradient, __nv_bfloat16>(stream, dx, dy, w, offsets, dy.dim(-1), dx.dim(-1), write);
}
void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                     Write write) {
  run<GroupedPass::weight_gradient, float>(stream, dw, dy, x, offsets, dy.dim(-1), x.dim(-1), write);
}
void weight_gradient_bf16(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                          Write write) {
  run<GroupedPass::weight_gradient, __nv_bfloat16>(stream, dw, dy, x, offsets, dy.dim(-1), x.dim(-1), write);
}

}  // namespace hexad::kernels::cuda::tensor_cores
