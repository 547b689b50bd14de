#include "layers/moe/experts.h"

#include <algorithm>

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

Tensor rows_of(const Tensor& like, int64_t width) {
  return Tensor::empty({like.dim(0), width}, like.dtype(), like.device());
}

Tensor matrix_of(const Tensor& stack, int64_t expert) { return Weight(stack).of_expert(expert).data; }

// f(expert, begin, end) for each that has rows.
template <class F>
void for_each_busy(std::span<const int64_t> offsets, const F& f) {
  for (size_t e = 0; e + 1 < offsets.size(); ++e)
    if (offsets[e] < offsets[e + 1]) f(static_cast<int64_t>(e), offsets[e], offsets[e + 1]);
}

}  // namespace

Tensor Experts::Product::forward(Stream& s, const Tensor& x, const Groups& groups) const {
  const Tensor out = rows_of(x, weight->shape()[1]);
  const Weight w = weight->use(s);
  if (groups.dense)
    for_each_busy(groups.rows.host, [&](int64_t e, int64_t begin, int64_t end) {
      table(x).matmul.forward(s, out.slice(0, begin, end), x.slice(0, begin, end), w.of_expert(e), Write::replace);
    });
  else
    table(x).grouped_matmul.forward(s, out, x, w, groups.rows, Write::replace);
  if (!bias) return out;
  const Weight values = bias->use(s);
  if (adds_bias) table(x).bias.grouped_forward(s, out, values.data, groups.rows);
  return out;
}

Tensor Experts::Product::input_gradient(Stream& s, const Tensor& dy, const Groups& groups) const {
  const Tensor dx = rows_of(dy, weight->shape()[2]);
  add_input_gradient(s, dx, dy, groups, Write::replace);
  return dx;
}

void Experts::Product::add_input_gradient(Stream& s, const Tensor& dx, const Tensor& dy, const Groups& groups,
                                          Write write) const {
  const Weight w = weight->use(s);
  if (groups.dense)
    for_each_busy(groups.rows.host, [&](int64_t e, int64_t begin, int64_t end) {
      table(dy).matmul.input_gradient(s, dx.slice(0, begin, end), dy.slice(0, begin, end), w.of_expert(e), write);
    });
  else
    table(dy).grouped_matmul.input_gradient(s, dx, dy, w, groups.rows, write);
}

void Experts::Product::weight_gradient_of_product(Stream& s, const Tensor& dy, const Tensor& x,
                                                  const Groups& groups) const {
  const Tensor& dw = weight->gradient();
  const Write write = weight->next_write();
  if (!groups.dense) return table(x).grouped_matmul.weight_gradient(s, dw, dy, x, groups.rows, write);
  for (int64_t e = 0; e < dw.dim(0); ++e) {  // also of those without rows, which may have to become zero
    const auto begin = groups.rows.host[static_cast<size_t>(e)], end = groups.rows.host[static_cast<size_t>(e) + 1];
    table(x).matmul.weight_gradient(s, matrix_of(dw, e), dy.slice(0, begin, end), x.slice(0, begin, end), write);
  }
}

void Experts::Product::bias_gradients(Stream& s, const Tensor& dy, const Tensor& weights, const Tensor& own,
                                      const Groups& groups, const Tensor& dweights) const {
  const Tensor& db = bias->gradient_to_add(s);
  if (!adds_bias) return;
  const auto& k = table(dy);
  const Tensor rows = Tensor::like(dy), dots = Tensor::like(dweights);
  k.pointwise.fill(s, rows, 0);
  k.bias.grouped_forward(s, rows, bias->use(s).data, groups.rows);
  k.permute.row_dots(s, dots, dy, rows);
  k.pointwise.add(s, dweights, dweights, dots);
  k.permute.gather_weighted(s, rows, dy, own, weights);
  k.bias.grouped_backward(s, db, rows, groups.rows);
}

void Experts::Product::weight_gradient(Stream& s, const Tensor& dy, const Tensor& x, const Groups& groups) const {
  weight_gradient_of_product(s, dy, x, groups);
  if (!bias) return;
  // Where another rank adds the bias it gets a zero gradient here, at the same time: ranks that share a parameter
  // gather and reduce it in one order.
  const Tensor& db = bias->gradient_to_add(s);
  if (adds_bias) table(x).bias.grouped_backward(s, db, dy, groups.rows);
}

void Experts::activate(Stream& s, const Tensor& out, const ExpertMiddle& m) const {
  if (gated())
    table(out).swiglu.forward(s, out, m.gate, m.up, {});
  else
    table(out).gelu.forward(s, out, m.up, config_.gelu);
}

ExpertMiddle Experts::before_activation(Stream& s, const Tensor& rows, const Groups& groups) const {
  ExpertMiddle m;
  m.up = up_.forward(s, rows, groups);
  if (gated()) m.gate = gate_.forward(s, rows, groups);
  return m;
}

ExpertMiddle Experts::middle(Stream& s, const Tensor& rows, const Groups& groups) const {
  ExpertMiddle m = before_activation(s, rows, groups);
  m.product = Tensor::like(m.up);
  activate(s, m.product, m);
  return m;
}

Tensor Experts::output(Stream& s, const ExpertMiddle& m, const Groups& groups) const {
  return down_.forward(s, m.product, groups);
}

// Weights are asked for in the reverse of forward's order: those that come and go are then fetched once.
Tensor Experts::of_first_products(Stream& s, const Tensor& dgate, const Tensor& dup, const Groups& groups) const {
  if (!gated()) return up_.input_gradient(s, dup, groups);
  const Tensor rows = gate_.input_gradient(s, dgate, groups);
  up_.add_input_gradient(s, rows, dup, groups, Write::add);
  return rows;
}

Experts::Gradients Experts::input_gradients(Stream& s, const ExpertMiddle& m, const Tensor& doutput,
                                            const Groups& groups) const {
  Gradients g;
  Tensor dproduct = down_.input_gradient(s, doutput, groups);
  g.up = Tensor::like(m.up);
  if (gated()) {
    g.gate = Tensor::like(m.gate);
    table(doutput).swiglu.backward(s, g.gate, g.up, {}, {}, dproduct, m.gate, m.up, {});
  } else {
    table(doutput).gelu.backward(s, g.up, dproduct, m.up, config_.gelu);
  }
  dproduct = {};
  g.rows = of_first_products(s, g.gate, g.up, groups);
  return g;
}

void Experts::weight_gradients(Stream& s, const Tensor& rows, const ExpertMiddle& m, const Gradients& g,
                               const Tensor& doutput, const Groups& groups) const {
  down_.weight_gradient(s, doutput, m.product, groups);
  if (gated()) gate_.weight_gradient(s, g.gate, rows, groups);
  up_.weight_gradient(s, g.up, rows, groups);
}

Experts::Weighted Experts::backward_weighted(Stream& s, const Tensor& rows, ExpertMiddle m, const Tensor& doutput,
                                             const Tensor& weights, const Groups& groups) const {
  const auto& k = table(rows);
  const int64_t count = rows.dim(0);
  const Tensor own = Tensor::empty({count}, Dtype::i64, rows.device());
  k.slots.iota(s, own, 0);
  const auto weigh = [&](const Tensor& x) { k.permute.gather_weighted(s, x, x, own, weights); };

  if (!m.product.defined()) m.product = Tensor::like(m.up);
  activate(s, m.product, m);
  weigh(m.product);
  down_.weight_gradient_of_product(s, doutput, m.product, groups);
  activate(s, m.product, m);
  // The gradient of a row's weight is the row's result times doutput, which is the product times its own gradient.
  // Block by block the weighted gradient takes the product's place.
  Weighted out{.rows = {}, .weights = Tensor::empty({count}, weights.dtype(), weights.device())};
  const std::span<const int64_t> offsets = groups.rows.host;
  std::vector<int64_t> block(offsets.size(), 0);
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    for (int64_t begin = offsets[e], end; begin < offsets[e + 1]; begin = end) {
      end = std::min(begin + ExpertShape::block_rows, offsets[e + 1]);
      std::fill(block.begin() + static_cast<std::ptrdiff_t>(e) + 1, block.end(), end - begin);
      const Tensor dproduct = down_.input_gradient(s, doutput.slice(0, begin, end),
                                                   {kernels::GroupOffsets::on_host(block), groups.dense}),
                   part = m.product.slice(0, begin, end);
      k.permute.row_dots(s, out.weights.slice(0, begin, end), dproduct, part);
      k.permute.gather_weighted(s, part, dproduct, own.slice(0, 0, end - begin), weights.slice(0, begin, end));
    }
    std::fill(block.begin(), block.end(), 0);
  }
  if (down_.bias) down_.bias_gradients(s, doutput, weights, own, groups, out.weights);
  if (gated())
    k.swiglu.backward(s, m.gate, m.up, {}, {}, m.product, m.gate, m.up, {});
  else
    k.gelu.backward(s, m.up, m.product, m.up, config_.gelu);
  m.product = {};
  if (gated()) gate_.weight_gradient(s, m.gate, rows, groups);
  up_.weight_gradient(s, m.up, rows, groups);
  out.rows = of_first_products(s, m.gate, m.up, groups);
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
