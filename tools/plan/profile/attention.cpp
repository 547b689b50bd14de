#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/units.h"
#include "framework/kernels/kernel_table.h"
#include "tools/plan/profile/parts.h"

namespace hexad::plan {
namespace {

using base::Dtype;
using tensor::Tensor;

// Returns a function that runs a pass of causal attention on one sequence of zeros.
std::function<void()> make_attention(const AttentionHeads& size, Element element, AttentionPass pass, int64_t positions,
                                     device::Device device) {
  const Dtype dtype = dtype_of(element);
  const auto rows = [&] { return Tensor::zeros({positions, size.heads, size.head_size}, dtype, device); };
  const kernels::AttentionShape shape{.sequences = 1,
                                      .queries = positions,
                                      .keys = positions,
                                      .scale = 1 / std::sqrt(static_cast<double>(size.head_size))};
  const auto& k = kernels::kernels(device).attention;
  device::Stream* stream = &device.context().compute();
  const kernels::AttentionSaved saved{.out = rows(),
                                      .log_sum_exp = Tensor::zeros({positions, size.heads}, Dtype::f32, device),
                                      .q = rows(),
                                      .k = rows(),
                                      .v = rows()};
  k.forward(*stream, saved.out, saved.log_sum_exp, saved.q, saved.k, saved.v, {}, {}, shape);
  if (pass == AttentionPass::forward)
    return [=, &k] {
      k.forward(*stream, saved.out, saved.log_sum_exp, saved.q, saved.k, saved.v, {}, {}, shape);
      stream->synchronize();
    };
  const kernels::AttentionGradients gradients{.dq = rows(), .dk = rows(), .dv = rows()};
  return [=, &k, dout = rows()] { k.backward(*stream, gradients, dout, saved, shape), stream->synchronize(); };
}

}  // namespace

void measure_attention(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                       const Progress& progress) {
  constexpr auto elements = enum_names(Element{});
  constexpr auto passes = enum_names(AttentionPass{});
  std::vector<int64_t> lengths;
  for (int64_t positions = 32; positions <= options.longest_sequence; positions *= 2) lengths.push_back(positions);
  const Budget budget(timer, seconds);
  size_t open = options.attention.size() * elements.size() * passes.size();
  for (const auto& [element, element_name] : elements)
    for (const AttentionHeads& size : options.attention) {
      std::vector<std::string> longest;  // seconds of each pass for its longest measured sequence
      for (const auto& [pass, pass_name] : passes) {
        const auto prepare = [&, e = element, p = pass](int64_t positions) -> Timer::Work {
          return {static_cast<double>(positions), make_attention(size, e, p, positions, timer.device()), kernel_batch};
        };
        const Curve curve = timer.curve(lengths, budget.left() / static_cast<double>(open--), prepare);
        cluster.attention.push_back({element, pass, size.heads, size.head_size, curve});
        longest.push_back(fmt::format("{} {} for {} positions", pass_name,
                                      base::precise_duration(curve.points.back().y), curve.points.back().x));
      }
      progress(fmt::format("{} attention, {} heads of size {}: {}", element_name, size.heads, size.head_size,
                           fmt::join(longest, ", ")));
    }
}

}  // namespace hexad::plan
