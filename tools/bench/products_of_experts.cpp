#include "tools/bench/product_benchmarks.h"

#include <fmt/format.h>

#include <vector>

#include "framework/kernels/cuda/products/grouped_passes.h"

namespace hexad::bench {

using namespace kernels;
namespace {

namespace one_kernel = cuda::tensor_cores;
constexpr auto bf = Dtype::bf16, f32 = Dtype::f32;

/// Sizes of rows x[rows, width] and weights w[experts, features, width].
struct Sizes {
  const char* model;
  int64_t rows, width, features, experts;
};
// Gate and up are one product, so their number of features is twice the width of an expert.
constexpr Sizes all_sizes[] = {
    {"Mixtral gate and up", 16384, 4096, 28672, 8},          {"Mixtral down", 16384, 14336, 4096, 8},
    {"Qwen3-30B gate and up", 65536, 2048, 1536, 128},       {"Qwen3-30B down", 65536, 768, 2048, 128},
    {"DeepSeek-V2-Lite gate and up", 49152, 2048, 2816, 64}, {"DeepSeek-V2-Lite down", 49152, 1408, 2048, 64},
    {"bench-gpu gate and up", 65536, 2048, 2048, 32},        {"bench-gpu down", 65536, 1024, 2048, 32},
};

void products_of(CudaTimer& b, const KernelTable& k, const Sizes& s) {
  std::vector<int64_t> begins;
  for (int64_t e = 0; e <= s.experts; ++e) begins.push_back(s.rows / s.experts * e);
  const Tensor offsets = b.values<int64_t>(begins, {s.experts + 1});
  const Tensor x = b.normal({s.rows, s.width}, bf), w = b.normal({s.experts, s.features, s.width}, bf, 0.02);
  const Tensor y = b.normal({s.rows, s.features}, bf), dx = b.empty({s.rows, s.width}, bf);
  const Tensor dw = b.normal({s.experts, s.features, s.width}, f32);
  const Work work{.operations =
                      2 * static_cast<double>(s.rows) * static_cast<double>(s.width) * static_cast<double>(s.features)};
  const auto both = [&](const char* pass, const std::function<void(Stream&)>& together,
                        const std::function<void(Stream&, int64_t, const Tensor&, const Tensor&)>& of_expert) {
    b.line(fmt::format("{} {}, one kernel", s.model, pass), work, together);
    b.line(fmt::format("{} {}, one by one", s.model, pass), work, [&](Stream& stream) {
      for (int64_t e = 0; e < s.experts; ++e)
        of_expert(stream, e, x.slice(0, begins[e], begins[e + 1]), y.slice(0, begins[e], begins[e + 1]));
    });
  };
  for (const Write write : {Write::replace, Write::add})
    both(
        write == Write::add ? "wgrad add" : "wgrad",
        [&](Stream& stream) { one_kernel::weight_gradient(stream, dw, y, x, offsets, write); },
        [&](Stream& stream, int64_t e, const Tensor& rows, const Tensor& dy) {
          k.matmul.weight_gradient(stream, expert_matrix(dw, e), dy, rows, write);
        });
  both(
      "dgrad", [&](Stream& stream) { one_kernel::input_gradient(stream, dx, y, w, offsets, Write::replace); },
      [&](Stream& stream, int64_t e, const Tensor&, const Tensor& dy) {
        k.matmul.input_gradient(stream, dx.slice(0, begins[e], begins[e + 1]), dy, expert_matrix(w, e), Write::replace);
      });
  both(
      "forward", [&](Stream& stream) { one_kernel::forward(stream, y, x, w, offsets, Write::replace); },
      [&](Stream& stream, int64_t e, const Tensor& rows, const Tensor& out) {
        k.matmul.forward(stream, out, rows, expert_matrix(w, e), Write::replace);
      });
}

}  // namespace

void products_of_experts(CudaTimer& b, const KernelTable& k) {
  for (const Sizes& s : all_sizes) products_of(b, k, s);
}

}  // namespace hexad::bench
