#include "layers/moe/experts.h"

#include <algorithm>
#include <utility>

namespace hexad::moe {

Experts::Experts(const Config& c, const Builder& b) : config_(c) {
  const Shape in{c.experts, c.expert_hidden, c.hidden}, out{c.experts, c.hidden, c.expert_hidden};
  if (c.kind == ExpertKind::swiglu) gate_ = make(c, b / "gate", in, 1, c.init_std);
  up_ = make(c, b / "up", in, 1, c.init_std);
  down_ = make(c, b / "down", out, 2, c.output_init_std);
}

Experts::Product Experts::make(const Config& c, const Builder& b, Shape shape, int width_dim, double std) {
  const auto along = [&](Axis axis, int dim) {
    return Shard{axis, dim, b.mesh().size(axis), b.mesh().coordinate(axis)};
  };
  const Shard experts = along(Axis::ep, 0), width = along(Axis::etp, width_dim);
  Product p;
  p.weight = &b.parameter("weight", shape,
                          {.init = {Init::Kind::normal, std},
                           .placement = Placement{.view = MeshView::expert, .shards = {experts, width}}});
  parameters_.push_back(p.weight);
  if (!c.bias) return p;
  const bool of_width = width_dim == 1;
  Placement placement{.view = MeshView::expert, .shards = {experts}};
  if (of_width)
    placement.shards.push_back(width);
  else
    placement.partial = {Axis::etp};
  p.adds_bias = of_width || b.mesh().coordinate(Axis::etp) == 0;
  p.bias = &b.parameter("bias", {shape[0], shape[1]},
                        {.init = {Init::Kind::constant, 0}, .decay = false, .placement = placement});
  parameters_.push_back(p.bias);
  return p;
}

namespace {

const kernels::KernelTable& table(const Tensor& t) { return kernels::kernels(t.device()); }

Tensor matrix_of(const Tensor& stack, int64_t expert) { return Weight(stack).of_expert(expert).data; }

}  // namespace

ExpertWeights Experts::hold(Stream& s, kernels::Direction direction) const {
  ExpertWeights all;
  all.gelu_ = config_.gelu;
  std::vector<std::pair<Parameter*, HeldWeight*>> order;
  const auto add = [&](const Product& from, ExpertWeights::Product& to) {
    to.adds_bias = from.adds_bias;
    if (from.weight) order.emplace_back(from.weight, &to.weight);
    if (from.bias) order.emplace_back(from.bias, &to.bias);
  };
  add(gate_, all.gate_), add(up_, all.up_), add(down_, all.down_);
  if (direction == kernels::Direction::backward) std::ranges::reverse(order);
  for (auto [parameter, place] : order) *place = parameter->hold(s);
  return all;
}

void Experts::Product::weight_gradient_of_product(Stream& s, const Tensor& dy, const Tensor& x,
                                                  const RowGroups& groups) const {
  const Tensor& dw = weight->gradient();
  const Write write = weight->next_write();
  if (!groups.dense) return table(x).grouped_matmul.weight_gradient(s, dw, dy, x, groups.rows, write);
  for (int64_t e = 0; e < dw.dim(0); ++e) {  // also of those without rows, which may have to become zero
    const auto begin = groups.rows.host[static_cast<size_t>(e)], end = groups.rows.host[static_cast<size_t>(e) + 1];
    table(x).matmul.weight_gradient(s, matrix_of(dw, e), dy.slice(0, begin, end), x.slice(0, begin, end), write);
  }
}

void Experts::result_bias_gradients(Stream& s, const ExpertWeights& held, const Tensor& dy, const Tensor& weights,
                                    const Tensor& own, const RowGroups& groups, const Tensor& dweights) const {
  if (!down_.bias) return;
  const Tensor& db = down_.bias->gradient_to_add(s);
  if (!down_.adds_bias) return;
  const auto& k = table(dy);
  const Tensor rows = Tensor::like(dy), dots = Tensor::like(dweights);
  k.pointwise.fill(s, rows, 0);
  held.add_result_bias(s, rows, groups);
  k.permute.row_dots(s, dots, dy, rows);
  k.pointwise.add(s, dweights, dweights, dots);
  k.permute.gather_weighted(s, rows, dy, own, weights);
  k.bias.grouped_backward(s, db, rows, groups.rows);
}

void Experts::Product::weight_gradient(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups) const {
  weight_gradient_of_product(s, dy, x, groups);
  if (!bias) return;
  // Where another rank adds the bias it gets a zero gradient here, at the same time: ranks that share a parameter
  // gather and reduce it in one order.
  const Tensor& db = bias->gradient_to_add(s);
  if (adds_bias) table(x).bias.grouped_backward(s, db, dy, groups.rows);
}

void Experts::weight_gradients(Stream& s, const Tensor& rows, const ExpertMiddle& m, const ExpertGradients& g,
                               const Tensor& doutput, const RowGroups& groups) const {
  down_.weight_gradient(s, doutput, m.product, groups);
  if (gated()) gate_.weight_gradient(s, g.gate, rows, groups);
  up_.weight_gradient(s, g.up, rows, groups);
}

Experts::Weighted Experts::backward_weighted(Stream& s, const ExpertWeights& held, const Tensor& rows, ExpertMiddle m,
                                             const Tensor& doutput, const Tensor& weights,
                                             const RowGroups& groups) const {
  const auto& k = table(rows);
  const int64_t count = rows.dim(0);
  const Tensor own = Tensor::empty({count}, Dtype::i64, rows.device());
  k.slots.iota(s, own, 0);
  const auto weigh = [&](const Tensor& x) { k.permute.gather_weighted(s, x, x, own, weights); };

  if (!m.product.defined()) m.product = Tensor::like(m.up);
  held.activate(s, m.product, m);
  weigh(m.product);
  down_.weight_gradient_of_product(s, doutput, m.product, groups);
  held.activate(s, m.product, m);
  // The gradient of a row's weight is the row's result times doutput, which is the product times its own gradient.
  // Block by block the weighted gradient takes the product's place.
  Weighted out{.rows = {}, .weights = Tensor::empty({count}, weights.dtype(), weights.device())};
  const std::span<const int64_t> offsets = groups.rows.host;
  std::vector<int64_t> block(offsets.size(), 0);
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    for (int64_t begin = offsets[e], end; begin < offsets[e + 1]; begin = end) {
      end = std::min(begin + ExpertShape::block_rows, offsets[e + 1]);
      std::fill(block.begin() + static_cast<std::ptrdiff_t>(e) + 1, block.end(), end - begin);
      const Tensor dproduct = held.product_gradient(s, doutput.slice(0, begin, end),
                                                    {kernels::GroupOffsets::on_host(block), groups.dense}),
                   part = m.product.slice(0, begin, end);
      k.permute.row_dots(s, out.weights.slice(0, begin, end), dproduct, part);
      k.permute.gather_weighted(s, part, dproduct, own.slice(0, 0, end - begin), weights.slice(0, begin, end));
    }
    std::fill(block.begin(), block.end(), 0);
  }
  result_bias_gradients(s, held, doutput, weights, own, groups, out.weights);
  held.activation_gradient(s, m.gate, m.up, m.product, m);
  m.product = {};
  if (gated()) gate_.weight_gradient(s, m.gate, rows, groups);
  up_.weight_gradient(s, m.up, rows, groups);
  out.rows = held.row_gradient(s, m.gate, m.up, groups);
  return out;
}

int64_t ExpertShape::backward_bytes(int64_t rows, Dtype dtype) const {
  // Rows, their gradient, and of each product that reads them a gradient; the middle, its product, a block of that's.
  const int64_t products = gated ? 2 : 1;
  const int64_t elements = rows * ((2 + products) * hidden + (products + 1) * width);
  constexpr int64_t of_a_row = 3 * 8;  // its number, its weight and that one's gradient
  return (elements + std::min(rows, block_rows) * width) * size_of(dtype) + rows * of_a_row;
}

int64_t Experts::middle_width() const { return (gated() ? 2 : 1) * up_.weight->shape()[1]; }

int64_t Experts::products() const { return gated() ? 3 : 2; }

double Experts::flops_per_row() const {
  const Shape& up = up_.weight->shape();
  return 2.0 * static_cast<double>(up[1]) * static_cast<double>(up[2]);
}

}  // namespace hexad::moe
