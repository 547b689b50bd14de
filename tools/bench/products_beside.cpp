#include "tools/bench/product_benchmarks.h"

#include <fmt/format.h>

#include <vector>

#include "framework/kernels/compute_share.h"
#include "tools/bench/bench_gpu_sizes.h"
#include "tools/bench/spinning_blocks.h"

namespace hexad::bench {

using namespace kernels;
namespace {

constexpr auto bf = Dtype::bf16, f32 = Dtype::f32;

class Lines {
 public:
  Lines(CudaTimer& timer, const device::cuda::Card& card)
      : timer_(timer), multiprocessors_(card.multiprocessors()), spinning_(card) {}

  void print(const std::string& name, double operations, const std::function<void(Stream&)>& call) {
    for (const int blocks : {0, 1, 2, 4, 8, 16})
      for (const int reserve : blocks == 0 ? std::vector{0} : std::vector{0, blocks, 2 * blocks}) {
        const ComputeShare share(1.0 - static_cast<double>(reserve) / multiprocessors_);
        timer_.line(fmt::format("{} beside {} CTAs, reserve {}", name, blocks, reserve), {.operations = operations},
                    call, [&](const std::function<void()>& measure) {
                      measure();  // the first call makes the plan, loads kernels and allocates memory, which may wait
                                  // for the card
                      spinning_.run_beside(blocks, measure);
                    });
      }
  }

 private:
  CudaTimer& timer_;
  int multiprocessors_;
  SpinningBlocks spinning_;
};

double operations(int64_t m, int64_t n, int64_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

void grouped(CudaTimer& b, Lines& lines, const KernelTable& k) {
  constexpr int64_t d = expert_hidden, n = hidden;
  std::vector<int64_t> offsets;
  for (int64_t e = 0; e <= experts; ++e) offsets.push_back(rows / experts * e);
  GroupOffsets groups = GroupOffsets::on_host(offsets);
  groups.device = b.values<int64_t>(offsets, {experts + 1});
  groups.host = {}, groups.max_rows = rows;  // without counts on the host, one kernel computes all groups
  const Tensor x = b.normal({rows, d}, bf), w = b.normal({experts, n, d}, bf, 0.02), dy = b.normal({rows, n}, bf);
  const Tensor y = b.empty({rows, n}, bf), dw = b.empty({experts, n, d}, f32);
  const auto& g = k.grouped_matmul;
  lines.print("experts down forward", operations(rows, n, d),
              [&](Stream& s) { g.forward(s, y, x, w, groups, Write::replace); });
  lines.print("experts down wgrad", operations(rows, n, d),
              [&](Stream& s) { g.weight_gradient(s, dw, dy, x, groups, Write::replace); });
}

void dense(CudaTimer& b, Lines& lines, const KernelTable& k, const std::string& name, int64_t t, int64_t d, int64_t n) {
  const Tensor x = b.normal({t, d}, bf), w = b.normal({n, d}, bf, 0.02), dy = b.normal({t, n}, bf);
  const Tensor y = b.empty({t, n}, bf), dw = b.empty({n, d}, f32);
  lines.print(name + " forward", operations(t, n, d), [&](Stream& s) { k.matmul.forward(s, y, x, w, Write::replace); });
  lines.print(name + " wgrad", operations(t, n, d),
              [&](Stream& s) { k.matmul.weight_gradient(s, dw, dy, x, Write::replace); });
}

}  // namespace

void products_beside_blocks(CudaTimer& b, const KernelTable& k, const device::cuda::Card& card) {
  Lines lines(b, card);
  grouped(b, lines, k);
  dense(b, lines, k, "qkv", tokens, hidden, qkv);
  dense(b, lines, k, "product", 8192, 8192, 8192);
}

}  // namespace hexad::bench
