#include "tools/train/model/fused_trial.h"

#include <algorithm>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/gate_and_up.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::train {

using namespace base;
using kernels::GroupOffsets;
using tensor::Tensor;

namespace {

// Returns a tensor of pseudo-random numbers from -1 to 1.
Tensor numbers(const Shape& shape, Dtype dtype, device::DeviceContext& context) {
  Tensor t;
  with_dtype<float, bf16, double>("trial", dtype, [&]<class T>() {
    std::vector<T> values(shape.numel());
    uint64_t state = 1;
    for (T& value : values) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
      value = static_cast<T>(static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f);
    }
    t = Tensor::from<T>(values, shape, context);
  });
  return t;
}

// Returns offsets of groups whose numbers of rows are proportional to `shares`.
std::vector<int64_t> offsets_of(int64_t rows, const std::vector<int64_t>& shares) {
  int64_t total = 0, sum = 0;
  for (const int64_t share : shares) total += share;
  std::vector<int64_t> offsets{0};
  for (const int64_t share : shares) {
    sum += share;
    offsets.push_back(rows * sum / total);
  }
  return offsets;
}

// Returns distributions of the rows: even, half of all rows for the first expert, and no rows for every second expert.
std::vector<std::vector<int64_t>> distributions(const FusedShape& shape) {
  const std::vector<int64_t> even(shape.experts, 1);
  std::vector<int64_t> hot = even, gaps = even;
  hot.front() = std::max<int64_t>(1, shape.experts - 1);
  for (int64_t e = 1; e < shape.experts; e += 2) gaps[e] = 0;
  return {offsets_of(shape.rows, even), offsets_of(shape.rows, hot), offsets_of(shape.rows, gaps)};
}

// Random operands of the kernels.
struct Operands {
  Tensor rows;     // [R, D]: inputs of the experts, and gradient of their results
  Tensor first;    // [E, 2 F, D]: weights of the first product
  Tensor last;     // [E, D, F]: weights of the last product
  Tensor gate_up;  // [R, 2 F]: result of the first product, for backward

  Tensor like_gate_up() const { return Tensor::like(gate_up); }
  Tensor like_activated() const {
    return Tensor::empty({gate_up.dim(0), gate_up.dim(1) / 2}, gate_up.dtype(), gate_up.device());
  }
  // Holds a contest between `plain` and `fused` for `duel`. `terms` is the largest number of terms that are summed for
  // an element.
  void contest(kernels::Duel& duel, device::Stream& stream, const kernels::Way& plain, const kernels::Way& fused,
               int64_t terms) const {
    duel.contest(stream, plain, fused, {0, rows.dim(0)}, terms);
  }
};

void contest_forward(kernels::Duel& duel, device::Stream& stream, const Operands& o, const GroupOffsets& groups,
                     const Tensor& weights) {
  const kernels::KernelTable& k = kernels::kernels_of(o.rows);
  const auto plain = [&](device::Stream& s) {
    const Tensor gate_up = o.like_gate_up(), activated = o.like_activated();
    k.grouped_matmul.forward(s, gate_up, o.rows, o.first, groups, kernels::Write::replace);
    const auto [gate, up] = kernels::gate_and_up(gate_up);
    k.swiglu.forward(s, activated, gate, up, weights);
    return std::vector<Tensor>{gate_up, activated};
  };
  const auto fused = [&](device::Stream& s) {
    const Tensor gate_up = o.like_gate_up(), activated = o.like_activated();
    k.grouped_swiglu.forward(s, gate_up, activated, o.rows, o.first, groups, weights);
    return std::vector<Tensor>{gate_up, activated};
  };
  o.contest(duel, stream, plain, fused, o.rows.dim(1));
}

void contest_backward(kernels::Duel& duel, device::Stream& stream, const Operands& o, const GroupOffsets& groups,
                      const Tensor& weights) {
  const kernels::KernelTable& k = kernels::kernels_of(o.rows);
  const auto made = [&] {
    return kernels::GroupedSwigluGradients{o.like_gate_up(), o.like_activated(),
                                           weights.defined() ? Tensor::like(weights) : Tensor{}};
  };
  const auto results = [&](const kernels::GroupedSwigluGradients& g) {
    return weights.defined() ? std::vector<Tensor>{g.dgate_up, g.product, g.dweights} : std::vector<Tensor>{g.dgate_up};
  };
  const auto plain = [&](device::Stream& s) {
    const kernels::GroupedSwigluGradients g = made();
    k.grouped_matmul.input_gradient(s, g.product, o.rows, o.last, groups, kernels::Write::replace);
    const auto [dgate, dup] = kernels::gate_and_up(g.dgate_up);
    const auto [gate, up] = kernels::gate_and_up(o.gate_up);
    k.swiglu.backward(s, {dgate, dup, weights.defined() ? g.product : Tensor{}, g.dweights}, g.product,
                      {gate, up, weights});
    return results(g);
  };
  const auto fused = [&](device::Stream& s) {
    const kernels::GroupedSwigluGradients g = made();
    k.grouped_swiglu.backward(s, g, o.rows, o.last, groups, o.gate_up, weights);
    return results(g);
  };
  // The gradient of a routing weight is a sum over the columns of the activation.
  const int64_t width = weights.defined() ? o.last.dim(2) : 0;
  o.contest(duel, stream, plain, fused, std::max(o.rows.dim(1), width));
}

}  // namespace

FusedShape fused_shape(const Recipe& r, int place) {
  const layers::ModelConfig& m = r.model;
  const int64_t etp = r.parallel.etp.value_or(r.parallel.tp);
  // Each rank of an etp group computes the rows of the whole group. Tensor-parallel ranks divide the tokens.
  const double rows = static_cast<double>(r.batch.micro * m.context * etp) * m.moe.experts_of_token() /
                      static_cast<double>(r.parallel.cp * r.parallel.tp);
  return {.device = r.device,
          .place = place,
          .dtype = dtype_of(r.train.precision),
          .rows = std::max<int64_t>(1, static_cast<int64_t>(rows)),
          .hidden = m.hidden,
          .width = (m.moe.expert_hidden + etp - 1) / etp,
          .experts = m.moe.experts / r.parallel.ep,
          .threads = r.train.threads.value_or(1)};
}

FusedScores try_fused(const FusedShape& shape) {
  kernels::cpu::set_thread_count(static_cast<int>(shape.threads));
  device::DeviceContext context({.kind = shape.device, .place = shape.place});
  const auto random = [&](const Shape& of) { return numbers(of, shape.dtype, context); };
  const Operands operands{.rows = random({shape.rows, shape.hidden}),
                          .first = random({shape.experts, 2 * shape.width, shape.hidden}),
                          .last = random({shape.experts, shape.hidden, shape.width}),
                          .gate_up = random({shape.rows, 2 * shape.width})};
  kernels::Duel forward, backward;
  for (const std::vector<int64_t>& offsets : distributions(shape))
    for (const Tensor& weights : {Tensor{}, numbers({shape.rows}, accumulator_dtype(shape.dtype), context)}) {
      GroupOffsets groups = GroupOffsets::on_host(offsets);
      groups.device = Tensor::from<int64_t>(offsets, {shape.experts + 1}, context);
      groups.host = {};
      contest_forward(forward, context.compute(), operands, groups, weights);
      contest_backward(backward, context.compute(), operands, groups, weights);
    }
  return {forward.score(), backward.score()};
}

}  // namespace hexad::train
