#include "layers/moe/expert_weights.h"

namespace hexad::moe {
namespace {

const kernels::KernelTable& table(const Tensor& t) { return kernels::kernels(t.device()); }

Tensor rows_of(const Tensor& like, int64_t width) {
  return Tensor::empty({like.dim(0), width}, like.dtype(), like.device());
}

}  // namespace

Tensor ExpertWeights::Product::forward(Stream& s, const Tensor& x, const RowGroups& groups) const {
  const Weight w = weight.on(s);
  const Tensor out = rows_of(x, w.data.dim(1));
  if (groups.dense)
    groups.for_each_busy([&](int64_t e, int64_t begin, int64_t end) {
      table(x).matmul.forward(s, out.slice(0, begin, end), x.slice(0, begin, end), w.of_expert(e), Write::replace);
    });
  else
    table(x).grouped_matmul.forward(s, out, x, w, groups.rows, Write::replace);
  add_bias(s, out, groups);
  return out;
}

void ExpertWeights::Product::add_bias(Stream& s, const Tensor& out, const RowGroups& groups) const {
  if (adds_bias) table(out).bias.grouped_forward(s, out, bias.on(s).data, groups.rows);
}

Tensor ExpertWeights::Product::input_gradient(Stream& s, const Tensor& dy, const RowGroups& groups) const {
  const Tensor dx = rows_of(dy, weight.on(s).data.dim(2));
  add_input_gradient(s, dx, dy, groups, Write::replace);
  return dx;
}

void ExpertWeights::Product::add_input_gradient(Stream& s, const Tensor& dx, const Tensor& dy, const RowGroups& groups,
                                                Write write) const {
  const Weight w = weight.on(s);
  if (groups.dense)
    groups.for_each_busy([&](int64_t e, int64_t begin, int64_t end) {
      table(dy).matmul.input_gradient(s, dx.slice(0, begin, end), dy.slice(0, begin, end), w.of_expert(e), write);
    });
  else
    table(dy).grouped_matmul.input_gradient(s, dx, dy, w, groups.rows, write);
}

ExpertMiddle ExpertWeights::before_activation(Stream& s, const Tensor& rows, const RowGroups& groups) const {
  ExpertMiddle m;
  m.up = up_.forward(s, rows, groups);
  if (gated()) m.gate = gate_.forward(s, rows, groups);
  return m;
}

ExpertMiddle ExpertWeights::middle(Stream& s, const Tensor& rows, const RowGroups& groups) const {
  ExpertMiddle m = before_activation(s, rows, groups);
  m.product = Tensor::like(m.up);
  activate(s, m.product, m);
  return m;
}

void ExpertWeights::activate(Stream& s, const Tensor& out, const ExpertMiddle& m) const {
  if (gated())
    table(out).swiglu.forward(s, out, m.gate, m.up, {});
  else
    table(out).gelu.forward(s, out, m.up, gelu_);
}

Tensor ExpertWeights::output(Stream& s, const ExpertMiddle& m, const RowGroups& groups) const {
  return down_.forward(s, m.product, groups);
}

ExpertGradients ExpertWeights::input_gradients(Stream& s, const ExpertMiddle& m, const Tensor& doutput,
                                               const RowGroups& groups) const {
  ExpertGradients g;
  Tensor dproduct = product_gradient(s, doutput, groups);
  g.up = Tensor::like(m.up);
  if (gated()) g.gate = Tensor::like(m.gate);
  activation_gradient(s, g.gate, g.up, dproduct, m);
  dproduct = {};
  g.rows = row_gradient(s, g.gate, g.up, groups);
  return g;
}

Tensor ExpertWeights::product_gradient(Stream& s, const Tensor& doutput, const RowGroups& groups) const {
  return down_.input_gradient(s, doutput, groups);
}

void ExpertWeights::activation_gradient(Stream& s, const Tensor& dgate, const Tensor& dup, const Tensor& dproduct,
                                        const ExpertMiddle& m) const {
  if (gated())
    table(dproduct).swiglu.backward(s, dgate, dup, {}, {}, dproduct, m.gate, m.up, {});
  else
    table(dproduct).gelu.backward(s, dup, dproduct, m.up, gelu_);
}

Tensor ExpertWeights::row_gradient(Stream& s, const Tensor& dgate, const Tensor& dup, const RowGroups& groups) const {
  if (!gated()) return up_.input_gradient(s, dup, groups);
  const Tensor rows = gate_.input_gradient(s, dgate, groups);
  up_.add_input_gradient(s, rows, dup, groups, Write::add);
  return rows;
}

void ExpertWeights::add_result_bias(Stream& s, const Tensor& results, const RowGroups& groups) const {
  down_.add_bias(s, results, groups);
}

}  // namespace hexad::moe
