#include "layers/moe/experts/experts.h"

#include <algorithm>
#include <utility>

#include "framework/base/block_sizes.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::moe {

using namespace autograd;
using namespace base;

namespace {

Shard along(Axis axis, int dim, const Builder& b) {
  return {axis, dim, b.mesh().size(axis), b.mesh().coordinate(axis)};
}

Builder::Options bias_options(const Placement& placement, const Stack& stack) {
  return {.init = {Init::Kind::constant, 0}, .decay = false, .placement = placement, .stack = stack};
}

}  // namespace

Experts::Experts(const Config& c, const Builder& b) : config_(c), gate_up_(make_first(c, b)), down_(make_down(c, b)) {
  for (const Projection& p : {gate_up_, down_})
    for (Parameter* parameter : {p.weight, p.bias})
      if (parameter) parameters_.push_back(parameter);
}

Experts::Projection Experts::make_first(const Config& c, const Builder& b) const {
  const Builder at = b / (gated() ? "gate_up" : "up");
  const auto stack = [&](const std::string& of) {
    if (!gated()) return Stack{};
    return Stack{1, {(b / "gate" / of).prefix(), (b / "up" / of).prefix()}};
  };
  const Shape bias = gated() ? Shape{c.experts, 2, c.expert_hidden} : Shape{c.experts, c.expert_hidden};
  const Shape weight =
      gated() ? Shape{c.experts, 2, c.expert_hidden, c.hidden} : Shape{c.experts, c.expert_hidden, c.hidden};
  const Placement placement{.view = MeshView::expert,
                            .shards = {along(Axis::ep, 0, b), along(Axis::etp, bias.rank() - 1, b)}};
  Projection p;
  p.weight = &at.parameter(
      "weight", weight, {.init = {Init::Kind::normal, c.init_std}, .placement = placement, .stack = stack("weight")});
  p.adds_bias = c.bias;
  if (c.bias) p.bias = &at.parameter("bias", bias, bias_options(placement, stack("bias")));
  return p;
}

Experts::Projection Experts::make_down(const Config& c, const Builder& b) const {
  const Builder at = b / "down";
  const Shard experts = along(Axis::ep, 0, b);
  Projection p;
  p.weight =
      &at.parameter("weight", {c.experts, c.hidden, c.expert_hidden},
                    {.init = {Init::Kind::normal, c.output_init_std},
                     .placement = Placement{.view = MeshView::expert, .shards = {experts, along(Axis::etp, 2, b)}}});
  p.adds_bias = c.bias && b.mesh().coordinate(Axis::etp) == 0;
  if (c.bias)
    p.bias = &at.parameter("bias", {c.experts, c.hidden},
                           bias_options({.view = MeshView::expert, .shards = {experts}, .partial = {Axis::etp}}, {}));
  return p;
}

ExpertWeights Experts::hold(Stream& s, kernels::Direction direction) const {
  ExpertWeights all;
  all.kind_ = config_.kind, all.gelu_ = config_.gelu, all.swiglu_limit_ = config_.swiglu_limit;
  std::vector<std::pair<Parameter*, HeldWeight*>> order;
  const auto add = [&](const Projection& from, ExpertWeights::HeldProjection& to) {
    to.adds_bias = from.adds_bias;
    order.emplace_back(from.weight, &to.weight);
    if (from.bias) order.emplace_back(from.bias, &to.bias);
  };
  add(gate_up_, all.gate_up_), add(down_, all.down_);
  if (direction == kernels::Direction::backward) std::ranges::reverse(order);
  for (auto [parameter, place] : order) *place = parameter->hold(s);
  return all;
}

namespace {

// Computes dw = dy^T x for the rows of each group. Makes one kernel call if `dense` is false, and otherwise one call
// for each group.
void multiply_transposed(Stream& s, const Tensor& dw, const Tensor& dy, const Tensor& x,
                         const kernels::GroupOffsets& rows, bool dense, kernels::Write write) {
  if (!dense) return kernels_of(x).grouped_matmul.weight_gradient(s, dw, dy, x, rows, write);
  // Includes experts without rows, because Write::replace must set their gradient to zero.
  for (int64_t e = 0; e < dw.dim(0); ++e) {
    const auto begin = rows.host[e], end = rows.host[e + 1];
    kernels_of(x).matmul.weight_gradient(s, kernels::expert_matrix(dw, e), dy.slice(0, begin, end),
                                         x.slice(0, begin, end), write);
  }
}

}  // namespace

void Experts::Projection::weight_gradient_without_bias(Stream& s, const Tensor& dy, const Tensor& x,
                                                       const RowGroups& groups) const {
  if (!weight->trainable()) return;
  // Writes one of the pass's `computations` contributions. The first contribution replaces a cleared gradient, and
  // later contributions are added.
  const auto [memory, write] = weight->next_gradient_target(groups.computations);
  multiply_transposed(s, joined(memory, 3), groups.own_part(dy), groups.own_part(x), groups.rows, groups.dense, write);
}

void Experts::Projection::shadow_gradient_without_bias(Stream& s, const Tensor& dy, const Tensor& x,
                                                       const RowGroups& groups, ShadowGradients& out) const {
  if (!weight->trainable()) return;
  const auto [memory, write] = out.next_target(*weight);
  multiply_transposed(s, joined(memory, 3), groups.shadow_part(dy), groups.shadow_part(x), groups.shadows, groups.dense,
                      write);
}

void Experts::result_bias_gradients(Stream& s, const ExpertWeights& held, const Tensor& dy, const Tensor& weights,
                                    const Tensor& own, const RowGroups& groups, const Tensor& dweights,
                                    ShadowGradients* shadows) const {
  if (!down_.bias) return;
  const Tensor db = down_.bias->trainable() ? down_.bias->gradient_to_add(s) : Tensor{};
  if (!down_.adds_bias) return;
  const auto& k = kernels_of(dy);
  const Tensor rows = Tensor::like(dy), dots = Tensor::like(dweights);
  k.pointwise.fill(s, rows, 0);
  held.add_result_bias(s, rows, groups);
  k.permute.row_dots(s, dots, dy, rows);
  k.pointwise.add(s, dweights, dweights, dots);
  if (!db.defined()) return;
  k.permute.gather_weighted(s, rows, dy, own, weights);
  k.bias.grouped_backward(s, db, groups.own_part(rows), groups.rows);
  if (shadows && groups.has_shadows())
    k.bias.grouped_backward(s, shadows->to_add(*down_.bias, s), groups.shadow_part(rows), groups.shadows);
}

void Experts::Projection::weight_gradient(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups) const {
  weight_gradient_without_bias(s, dy, x, groups);
  if (!bias || !bias->trainable()) return;
  // The gradient of the bias is zero on ranks that do not add the bias. These ranks still request the gradient, because
  // all ranks that share a parameter must reduce gradients in the same order.
  const Tensor db = joined(bias->gradient_to_add(s), 2);
  if (adds_bias) kernels_of(x).bias.grouped_backward(s, db, groups.own_part(dy), groups.rows);
}

void Experts::Projection::shadow_gradient(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups,
                                          ShadowGradients& out) const {
  shadow_gradient_without_bias(s, dy, x, groups, out);
  if (!bias || !bias->trainable()) return;
  const Tensor db = joined(out.to_add(*bias, s), 2);
  if (adds_bias) kernels_of(x).bias.grouped_backward(s, db, groups.shadow_part(dy), groups.shadows);
}

void Experts::weight_gradients(Stream& s, const Tensor& rows, const ExpertActivations& m, const ExpertGradients& g,
                               const Tensor& doutput, const RowGroups& groups) const {
  down_.weight_gradient(s, doutput, m.activated, groups);
  gate_up_.weight_gradient(s, g.gate_up, rows, groups);
}

void Experts::shadow_gradients(Stream& s, const Tensor& rows, const ExpertActivations& m, const ExpertGradients& g,
                               const Tensor& doutput, const RowGroups& groups, ShadowGradients& out) const {
  down_.shadow_gradient(s, doutput, m.activated, groups, out);
  gate_up_.shadow_gradient(s, g.gate_up, rows, groups, out);
}

Experts::Weighted Experts::backward_weighted(Stream& s, const ExpertWeights& held, const Tensor& rows,
                                             ExpertActivations m, const Tensor& doutput, const Tensor& weights,
                                             const RowGroups& groups, ShadowGradients* shadows) const {
  const auto& k = kernels_of(rows);
  const int64_t count = rows.dim(0);
  const Tensor own = Tensor::empty({count}, Dtype::i64, rows.device());
  k.slots.iota(s, own, 0);
  const auto weigh = [&](const Tensor& x) { k.permute.gather_weighted(s, x, x, own, weights); };

  if (!m.activated.defined()) m.activated = held.activated_like(m);
  held.activate(s, m.activated, m);
  const bool has_gradients_of_shadows = shadows && groups.has_shadows();
  if (down_.weight->trainable()) {
    weigh(m.activated);
    down_.weight_gradient_without_bias(s, doutput, m.activated, groups);
    if (has_gradients_of_shadows) down_.shadow_gradient_without_bias(s, doutput, m.activated, groups, *shadows);
    held.activate(s, m.activated, m);
  }
  // The gradient of a row's weight is the dot product of the row's result and doutput. Without a bias, this product
  // equals the dot product of `activated` and the gradient of `activated`; result_bias_gradients() later adds the
  // contribution of a bias. The gradient of `activated`, multiplied by the weight, replaces `activated`, one block of
  // rows at a time.
  Weighted out{.rows = {}, .weights = Tensor::empty({count}, weights.dtype(), weights.device())};
  const int64_t block_rows = base::block_sizes().expert_rows;
  // Computes both gradients for the rows of own experts or of shadows, which begin with row `first`. groups_of(offsets)
  // returns the groups of a block.
  const auto compute_blocks = [&](std::span<const int64_t> offsets, int64_t first, const auto& groups_of) {
    std::vector<int64_t> block(offsets.size(), 0);  // offsets of one block; a kernel call reads them before it returns
    for (size_t e = 0; e + 1 < offsets.size(); ++e) {
      for (int64_t begin = first + offsets[e], end; begin < first + offsets[e + 1]; begin = end) {
        end = std::min(begin + block_rows, first + offsets[e + 1]);
        std::fill(block.begin() + static_cast<std::ptrdiff_t>(e) + 1, block.end(), end - begin);
        const Tensor dactivated = held.activated_gradient(s, doutput.slice(0, begin, end),
                                                          groups_of(kernels::GroupOffsets::on_host(block))),
                     part = m.activated.slice(0, begin, end);
        k.permute.row_dots(s, out.weights.slice(0, begin, end), dactivated, part);
        k.permute.gather_weighted(s, part, dactivated, own.slice(0, 0, end - begin), weights.slice(0, begin, end));
      }
      std::fill(block.begin(), block.end(), 0);
    }
  };
  compute_blocks(groups.rows.host, 0, [&](const kernels::GroupOffsets& rows_of_block) {
    return RowGroups{.rows = rows_of_block, .dense = groups.dense};
  });
  if (groups.has_shadows()) {
    const std::vector<int64_t> none(groups.rows.host.size(), 0);
    compute_blocks(groups.shadows.host, groups.rows.host.back(), [&](const kernels::GroupOffsets& rows_of_block) {
      return RowGroups{.rows = kernels::GroupOffsets::on_host(none), .dense = groups.dense, .shadows = rows_of_block};
    });
  }
  result_bias_gradients(s, held, doutput, weights, own, groups, out.weights, shadows);
  held.gate_up_gradient(s, m.gate_up, m.activated, m);
  m.activated = {};
  gate_up_.weight_gradient(s, m.gate_up, rows, groups);
  if (has_gradients_of_shadows) gate_up_.shadow_gradient(s, m.gate_up, rows, groups, *shadows);
  out.rows = held.row_gradient(s, m.gate_up, groups);
  return out;
}

int64_t ExpertShape::backward_bytes(int64_t rows, Dtype dtype) const {
  // Counts the rows, the gradients of rows and results, the inputs and outputs of the activation, and one block of the
  // gradient of `activated`.
  const int64_t elements = rows * (3 * hidden + (gated ? 3 : 2) * width);
  constexpr int64_t of_a_row = 3 * 8;  // bytes of each row's index, weight, and weight gradient
  return (elements + std::min(rows, base::block_sizes().expert_rows) * width) * size_of(dtype) + rows * of_a_row;
}

int64_t Experts::activation_width() const {
  const Shape& weight = gate_up_.weight->shape();
  return gated() ? weight[1] * weight[2] : weight[1];
}

int64_t Experts::products() const { return gated() ? 3 : 2; }

int64_t Experts::weight_bytes() const {
  int64_t bytes = 0;
  for (const Parameter* p : parameters_) bytes += p->shape().numel() / p->shape()[0] * size_of(p->dtype());
  return bytes;
}

double Experts::flops_per_row() const {
  return 2.0 * static_cast<double>(shape().width) * static_cast<double>(config_.hidden);
}

}  // namespace hexad::moe
