// Kernels of the meta device whose work is not given by the bytes of their operands. Products, attention and the delta
// rule count operations.
#include <algorithm>

#include "framework/kernels/compute_share.h"
#include "framework/kernels/gate_and_up.h"
#include "framework/kernels/meta/meta_kernels.h"

namespace hexad::kernels::meta {

using base::GemmPass;

namespace {

// Product of `rows` rows in `groups` groups, from `inputs` to `outputs` elements each. `largest` is as in ProductWork.
struct ProductSizes {
  int64_t rows, inputs, outputs, groups = 1, largest = 0;
};

// Counts and logs a product, and invalidates the known contents of its result.
template <auto Family, auto Entry>
void product(Stream& stream, const Tensor& result, base::Dtype dtype, GemmPass pass, const ProductSizes& sizes,
             Write write) {
  forget(result);
  const int64_t wider = bytes_of(result) - result.numel() * base::size_of(dtype);
  const device::ProductWork work{dtype,
                                 pass,
                                 sizes.rows,
                                 sizes.inputs,
                                 sizes.outputs,
                                 sizes.groups,
                                 std::max<int64_t>(0, wider) + (write == Write::add ? bytes_of(result) : 0),
                                 compute_share(),
                                 sizes.largest};
  run_of(result).product_flops += work.flops();
  log_issue<Family, Entry>(result, stream, work);
}

// Returns the number of rows in all groups. If the host does not have the offsets, the result is an upper bound: all
// rows of x.
int64_t rows_of(const GroupOffsets& offsets, const Tensor& x) {
  return offsets.host.empty() ? x.dim(0) : offsets.host.back() - offsets.host.front();
}

// Returns the number of groups that have rows; the number of all groups if the host does not have the offsets.
int64_t groups_of(const GroupOffsets& offsets) {
  if (offsets.host.empty()) return offsets.groups;
  int64_t groups = 0;
  for (size_t e = 0; e + 1 < offsets.host.size(); ++e) groups += offsets.host[e + 1] > offsets.host[e];
  return groups;
}

// Returns the number of rows of the largest group; 0 if the host does not have the offsets.
int64_t largest_of(const GroupOffsets& offsets) {
  int64_t largest = 0;
  for (size_t e = 0; e + 1 < offsets.host.size(); ++e)
    largest = std::max(largest, offsets.host[e + 1] - offsets.host[e]);
  return largest;
}

// Returns the number of pairs (i, j) of positions with begin <= i < end, 0 <= j < keys and j <= i. A pair with j = i
// counts as half a pair.
double pairs_before(double begin, double end, double keys) {
  const double first = std::clamp(begin, 0.0, keys), last = std::clamp(end, 0.0, keys);
  return (last * last - first * first) / 2 + std::max(0.0, end - std::max(keys, begin)) * keys;
}

// Returns the FLOPs of the scores and of the product with the values. With a causal mask, a query sees only the keys up
// to its position. With a window, a query sees only keys from the start of the window on. Documents are ignored, as if
// a sequence were one document.
double attention_flops(const Tensor& q, const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.queries), keys = static_cast<double>(shape.keys);
  const auto begin = static_cast<double>(shape.query_offset), window = static_cast<double>(shape.window);
  double seen = shape.causal ? pairs_before(begin, begin + queries, keys) : queries * keys;
  if (shape.window > 0) seen -= pairs_before(begin - window, begin + queries - window, keys);
  return 4.0 * static_cast<double>(shape.sequences * q.dim(1) * q.dim(2)) * seen;
}

int64_t values_of(const AttentionShape& shape, const Tensor& q) {
  return shape.value_size > 0 ? shape.value_size : q.dim(2);
}

constexpr auto Dense = &KernelTable::matmul;
constexpr auto Grouped = &KernelTable::grouped_matmul;

}  // namespace

const MatmulKernels matmul{
    .forward =
        [](Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, Write write) {
          product<Dense, &MatmulKernels::forward>(stream, out, x.dtype(), GemmPass::forward,
                                                  {x.dim(0), w.dim(1), w.dim(0)}, write);
        },
    .input_gradient =
        [](Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, Write write) {
          product<Dense, &MatmulKernels::input_gradient>(stream, dx, w.dtype(), GemmPass::input_gradient,
                                                         {dy.dim(0), w.dim(1), w.dim(0)}, write);
        },
    .weight_gradient =
        [](Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
          product<Dense, &MatmulKernels::weight_gradient>(stream, dw, x.dtype(), GemmPass::weight_gradient,
                                                          {x.dim(0), x.dim(1), dy.dim(1)}, write);
        },
};

const GroupedMatmulKernels grouped_matmul{
    .forward =
        [](Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const GroupOffsets& offsets,
           Write write) {
          product<Grouped, &GroupedMatmulKernels::forward>(
              stream, out, x.dtype(), GemmPass::forward,
              {rows_of(offsets, x), w.dim(2), w.dim(1), groups_of(offsets), largest_of(offsets)}, write);
        },
    .input_gradient =
        [](Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const GroupOffsets& offsets,
           Write write) {
          product<Grouped, &GroupedMatmulKernels::input_gradient>(
              stream, dx, w.dtype(), GemmPass::input_gradient,
              {rows_of(offsets, dy), w.dim(2), w.dim(1), groups_of(offsets), largest_of(offsets)}, write);
        },
    .weight_gradient =
        [](Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const GroupOffsets& offsets,
           Write write) {
          product<Grouped, &GroupedMatmulKernels::weight_gradient>(
              stream, dw, x.dtype(), GemmPass::weight_gradient,
              {rows_of(offsets, x), x.dim(1), dy.dim(1), groups_of(offsets), largest_of(offsets)}, write);
        },
};

// Count the product, and also the activation or its gradient, as if a separate kernel computed it. Most devices have no
// fused kernel, and the time that a fused kernel saves has not been measured.
const GroupedSwigluKernels grouped_swiglu{
    .forward =
        [](Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x, const Tensor& w,
           const GroupOffsets& offsets, const Tensor& weights) {
          product<&KernelTable::grouped_swiglu, &GroupedSwigluKernels::forward>(
              stream, gate_up, x.dtype(), GemmPass::forward,
              {rows_of(offsets, x), w.dim(2), w.dim(1), groups_of(offsets), largest_of(offsets)}, Write::replace);
          const auto [gate, up] = gate_and_up(gate_up);
          Nothing<&KernelTable::swiglu, &SwigluKernels::forward>::launch(stream, activated, gate, up, weights);
        },
    .backward =
        [](Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dout, const Tensor& w,
           const GroupOffsets& offsets, const Tensor& gate_up, const Tensor& weights) {
          const auto& [dgate_up, recomputed, dweights] = gradients;
          product<&KernelTable::grouped_swiglu, &GroupedSwigluKernels::backward>(
              stream, recomputed, w.dtype(), GemmPass::input_gradient,
              {rows_of(offsets, dout), w.dim(2), w.dim(1), groups_of(offsets), largest_of(offsets)}, Write::replace);
          const auto [dgate, dup] = gate_and_up(dgate_up);
          const auto [gate, up] = gate_and_up(gate_up);
          Nothing<&KernelTable::swiglu, &SwigluKernels::backward>::launch(
              stream,
              {.dgate = dgate, .dup = dup, .product = dweights.defined() ? recomputed : Tensor{}, .dweights = dweights},
              recomputed, {gate, up, weights});
        },
};

// Counts one row of the table for each id, not the whole table.
const EmbeddingKernels embedding{
    .forward =
        [](Stream& stream, const Tensor& out, const Tensor&, const Tensor& ids) {
          forget(out);
          log_issue<&KernelTable::embedding, &EmbeddingKernels::forward>(
              out, stream, device::MemoryWork{2 * bytes_of(out) + bytes_of(ids), out.dtype()});
        },
    .backward =
        [](Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids) {
          forget(dtable);
          const int64_t sums = 2 * dout.numel() * base::size_of(dtable.dtype());
          log_issue<&KernelTable::embedding, &EmbeddingKernels::backward>(
              dtable, stream, device::MemoryWork{sums + bytes_of(dout) + bytes_of(ids), dtable.dtype()});
        },
};

void scatter(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  forget(out);
  log_issue<&KernelTable::permute, &PermuteKernels::scatter>(
      out, stream, device::MemoryWork{2 * bytes_of(x) + bytes_of(index), out.dtype()});
}

void copy(Stream& stream, const Tensor& out, const Tensor& x) {
  forget(out);
  const auto log = [&](const device::Work& work) {
    log_issue<&KernelTable::pointwise, &PointwiseKernels::copy>(out, stream, work);
  };
  const auto away = [](const Tensor& t) {
    return t.defined() && t.storage() && t.storage()->category() == device::Category::offload;
  };
  if (away(out))
    log(device::CopyWork{bytes_of(out), device::CopyWork::Kind::offload});
  else if (away(x))
    log(device::CopyWork{bytes_of(x), device::CopyWork::Kind::restore});
  else
    log(device::MemoryWork{bytes_of(out) + bytes_of(x), out.dtype()});
}

// Counts main twice, because it is read and written.
void sgd(Stream& stream, const Tensor& main, const Tensor& weights, const Tensor& gradient, double,
         const Tensor& factor) {
  for (const Tensor* result : {&main, &weights}) forget(*result);
  const int64_t copy = weights.storage() != main.storage() ? bytes_of(weights) : 0;
  log_issue<&KernelTable::optimizer, &OptimizerKernels::sgd>(
      main, stream,
      device::MemoryWork{2 * bytes_of(main) + copy + bytes_of(gradient) + bytes_of(factor), main.dtype()});
}

void squared_norm(Stream& stream, const Tensor& out, const Tensor& x, Write) {
  forget(out);
  log_issue<&KernelTable::optimizer, &OptimizerKernels::squared_norm>(
      out, stream, device::MemoryWork{bytes_of(out) + bytes_of(x), x.dtype()});
}

void attention_forward(Stream& stream, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor&,
                       const Tensor&, const Tensor&, const Tensor&, const AttentionShape& shape) {
  for (const Tensor* result : {&out, &log_sum_exp}) forget(*result);
  const double flops = attention_flops(q, shape);
  run_of(out).attention_flops += flops;
  log_issue<&KernelTable::attention, &AttentionKernels::forward>(
      out, stream,
      device::AttentionWork{q.dtype(), false, flops, shape.keys, q.dim(2), shape.sequences * q.dim(1),
                            values_of(shape, q)});
}

// Counts twice the FLOPs of forward, because both products of attention have two operands with gradients.
void attention_backward(Stream& stream, const AttentionGradients& gradients, const Tensor&, const AttentionSaved& saved,
                        const AttentionShape& shape) {
  forget(gradients);
  const double flops = 2 * attention_flops(saved.q, shape);
  run_of(gradients.dq).attention_flops += flops;
  log_issue<&KernelTable::attention, &AttentionKernels::backward>(
      gradients.dq, stream,
      device::AttentionWork{saved.q.dtype(), true, flops, shape.keys, saved.q.dim(2), shape.sequences * saved.q.dim(1),
                            values_of(shape, saved.q)});
}

namespace {

// Counts the three products of the recurrence in each token and value head: k S, k^T (strength * (v - k S)) and q S.
// `times` is the number of operations relative to forward.
template <auto Entry>
void log_rule(const Tensor& result, Stream& stream, GemmPass pass, const DeltaRuleOperands& o, int64_t times) {
  const int64_t heads = o.v.dim(0) * o.v.dim(1);
  const device::ProductWork work{o.v.dtype(), pass, heads, o.q.dim(2), 3 * times * o.v.dim(2), o.v.dim(1)};
  run_of(result).product_flops += work.flops();
  log_issue<&KernelTable::delta_rule, Entry>(result, stream, work);
}

}  // namespace

// Backward counts twice the FLOPs of forward, because each product has two operands with a gradient.
const DeltaRuleKernels delta_rule{
    .forward =
        [](Stream& stream, const Tensor& out, const Tensor& last_state, const DeltaRuleOperands& operands,
           const SequenceRows&) {
          for (const Tensor* result : {&out, &last_state}) forget(*result);
          log_rule<&DeltaRuleKernels::forward>(out, stream, GemmPass::forward, operands, 1);
        },
    .backward =
        [](Stream& stream, const DeltaRuleGradients& gradients, const Tensor&, const Tensor&,
           const DeltaRuleOperands& operands, const SequenceRows&) {
          forget(gradients);
          log_rule<&DeltaRuleKernels::backward>(gradients.dq, stream, GemmPass::input_gradient, operands, 2);
        },
};

}  // namespace hexad::kernels::meta
