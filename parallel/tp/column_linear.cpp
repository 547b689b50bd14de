#include "parallel/tp/overlap.h"
#include "parallel/tp/parallel_linear.h"

namespace hexad::tp {

using namespace autograd;
using namespace kernels;
namespace {

using Projections = std::vector<Projection>;

void check_shapes(const Value& x, const Projections& projections) {
  for (const Projection& p : projections) {
    const Shape& w = p.weight->shape();
    require(w.rank() >= 2 && x.data.rank() == 2 && x.data.dim(1) == w[w.rank() - 1], "[column_linear] x is ", x.shape(),
            " but ", p.weight->name(), " is ", w, "; expected [T, D] and [..., D]");
  }
}

int64_t outputs_of(const Projection& p) {
  return p.weight->shape().numel() / p.weight->shape()[p.weight->shape().rank() - 1];
}

std::vector<Tensor> products(const Tensor& x, const Projections& projections, const TensorParallel& tp,
                             Stream& stream) {
  const KernelTable& k = kernels::kernels(x.device());
  std::vector<Tensor> outs;
  for (const Projection& p : projections)
    outs.push_back(
        Tensor::empty({x.dim(0) * (tp.sequence ? tp.group->size() : 1), outputs_of(p)}, x.dtype(), x.device()));
  const auto multiply = [&](const Tensor& rows, int64_t begin, int64_t end) {
    for (size_t i = 0; i < outs.size(); ++i) {
      const Tensor out = outs[i].slice(0, begin, end);
      k.matmul.forward(stream, out, rows, matrix_of(projections[i].weight->use(stream)), Write::replace);
      if (projections[i].bias) k.bias.forward(stream, out, projections[i].bias->use(stream).reshape({-1}));
    }
  };
  if (tp.sequence)
    RowGather(x, *tp.group, stream).for_each_part(stream, multiply);
  else
    multiply(x, 0, x.dim(0));
  return outs;
}

// Properties of x that backward needs even if x is not saved.
struct Input {
  Shape all_rows;  // [R, D]
  Dtype dtype;
  Device device;
};

// Returns the sum over the ranks and projections of dy_i w_i. Skips outputs without a gradient.
Tensor input_gradient(Backward& b, const Input& x, const Projections& projections, const TensorParallel& tp) {
  const KernelTable& k = kernels::kernels(x.device);
  const auto addend = [&](const Tensor& out, int64_t begin, int64_t end) {
    bool first = true;
    for (size_t i = projections.size(); i-- > 0;) {  // in the order in which a tape would add the gradients
      const Tensor& dy = b.output_gradient(i);
      if (!dy.defined()) continue;
      const Tensor product = first ? out : Tensor::like(out);
      k.matmul.input_gradient(b.stream, product, dy.slice(0, begin, end),
                              matrix_of(projections[i].weight->use(b.stream)), Write::replace);
      if (!first) k.pointwise.add(b.stream, out, out, product);
      first = false;
    }
  };
  return sum_of_products("column_linear", x.all_rows, x.dtype, x.device, tp, b.stream, addend);
}

void add_weight_gradients(Backward& b, const Tensor& x, const Projections& projections) {
  const KernelTable& k = kernels::kernels(x.device());
  for (size_t i = projections.size(); i-- > 0;) {
    const Tensor& dy = b.output_gradient(i);
    if (!dy.defined()) continue;
    Parameter *w = projections[i].weight, *bias = projections[i].bias;
    if (w->trainable()) {
      const auto [dw, write] = w->next_gradient_target();
      k.matmul.weight_gradient(b.stream, matrix_of(dw), dy, x, write);
    }
    if (bias && bias->trainable()) k.bias.backward(b.stream, bias->gradient_to_add(b.stream).reshape({-1}), dy);
  }
}

}  // namespace

std::vector<Value> column_linear(Tape& tape, const Value& x, std::span<const Projection> projections,
                                 const TensorParallel& tp) {
  if (tp.group->size() == 1) {
    std::vector<Value> ys;
    for (const Projection& p : projections) ys.push_back(linear(tape, x, *p.weight, p.bias));
    return ys;
  }
  const Projections ps(projections.begin(), projections.end());
  check_shapes(x, ps);
  const std::vector<Tensor> outs = products(x.data, ps, tp, tape.stream);
  std::vector<Parameter*> parameters;
  for (const Projection& p : ps) {
    parameters.push_back(p.weight);
    if (p.bias) parameters.push_back(p.bias);
  }
  const Input input{{x.data.dim(0) * (tp.sequence ? tp.group->size() : 1), x.data.dim(1)}, x.data.dtype(), x.device()};
  const WeightPullback weights{parameters, [ps, sequence = tp.sequence](Backward& b, const Tensor&, const Saved& s) {
                                 const Tensor all = sequence ? b.saved_by_pullback().get<1>()[0] : s.get<1>()[0];
                                 add_weight_gradients(b, all, ps);
                               }};
  const bool trains = weights.trains();
  return tape.record_many(
      "column_linear", outs, {&x, 1}, save(trains ? x.data : Tensor{}),
      [ps, tp, input, trains](Backward& b, const Tensor&, const Saved& s) {
        // Starts to gather all rows of x for the weight gradients. Computes the input gradient while they arrive.
        if (tp.sequence && trains) b.save_for_weights(std::make_shared<RowGather>(s.get<1>()[0], *tp.group, b.stream));
        if (b.wants(0)) b.accumulate(0, input_gradient(b, input, ps, tp));
      },
      weights);
}

LinearTransfers transfers_of_column_linear(int64_t rows, int64_t row_bytes, const TensorParallel& tp) {
  LinearTransfers all{.forward = {}, .backward = transfers_of_sum(rows, row_bytes, tp)};
  if (!tp.sequence) return all;
  all.forward = transfers_of_gather(rows, row_bytes, *tp.group);
  all.backward.insert(all.backward.end(), all.forward.begin(), all.forward.end());
  return all;
}

}  // namespace hexad::tp
