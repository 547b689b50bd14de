#include "layers/moe/experts/expert_weights.h"

#include <algorithm>
#include <utility>

#include "framework/kernels/gate_and_up.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"

namespace hexad::moe {

using namespace kernels;
namespace {

Tensor empty_rows(const Tensor& like, int64_t width) {
  return Tensor::empty({like.dim(0), width}, like.dtype(), like.device());
}

// Calls f(group, begin, end) for each group that has rows.
template <class F>
void for_each_busy(const GroupOffsets& rows, const F& f) {
  for (size_t e = 0; e + 1 < rows.host.size(); ++e)
    if (rows.host[e] < rows.host[e + 1]) f(static_cast<int64_t>(e), rows.host[e], rows.host[e + 1]);
}

// Computes out = x w^T for the rows of each group. Makes one kernel call if `dense` is false, and otherwise one call
// for each group that has rows.
void multiply(Stream& s, const Tensor& out, const Tensor& x, const Tensor& w, const GroupOffsets& rows, bool dense) {
  if (!dense) return kernels_of(x).grouped_matmul.forward(s, out, x, w, rows, Write::replace);
  for_each_busy(rows, [&](int64_t e, int64_t begin, int64_t end) {
    kernels_of(x).matmul.forward(s, out.slice(0, begin, end), x.slice(0, begin, end), expert_matrix(w, e),
                                 Write::replace);
  });
}

// Computes dx = dy w for the rows of each group, with as many kernel calls as multiply().
void multiply_back(Stream& s, const Tensor& dx, const Tensor& dy, const Tensor& w, const GroupOffsets& rows,
                   bool dense) {
  if (!dense) return kernels_of(dy).grouped_matmul.input_gradient(s, dx, dy, w, rows, Write::replace);
  for_each_busy(rows, [&](int64_t e, int64_t begin, int64_t end) {
    kernels_of(dy).matmul.input_gradient(s, dx.slice(0, begin, end), dy.slice(0, begin, end), expert_matrix(w, e),
                                         Write::replace);
  });
}

// Returns the range of the rows of all groups. Reads the offsets from the device if they are not on the host.
ContestRows rows_of_groups(Stream& s, const GroupOffsets& rows) {
  if (!rows.host.empty()) return {rows.host.front(), rows.host.back()};
  const tensor::HostRead read = tensor::read_to_host("duel: rows", rows.device, s);
  const std::span<const int64_t> offsets = read.wait<int64_t>();
  return {offsets.front(), offsets.back()};
}

// Broadcasts the weights of the hot experts from their ranks. Returns the weights [H, ...]. These weights may be read
// once the events that this function adds to `arriving` are done. Returns an undefined tensor if `held` has no weight.
Tensor broadcast_hot(Stream& s, const HeldWeight& held, const ep::HotExperts& hot, const comm::ProcessGroup& ranks,
                     std::vector<device::Event>& arriving) {
  if (!held.defined()) return {};
  const Tensor own = held.on(s);
  base::Shape shape = own.shape();
  shape[0] = hot.count();
  Tensor all = Tensor::empty(shape, own.dtype(), own.device(), device::Category::communication);
  hot.for_each_owner([&](int owner, int64_t begin, int64_t end) {
    for (int64_t i = begin; owner == ranks.rank() && i < end; ++i) {
      const int64_t e = hot.list()[i] % hot.own();
      all.slice(0, i, i + 1).copy_from(own.slice(0, e, e + 1), s);
    }
    arriving.push_back(ranks.broadcast(all.slice(0, begin, end), owner, s));
  });
  return all;
}

}  // namespace

Tensor joined(const Tensor& t, int rank) {
  if (t.shape().rank() == rank) return t;
  const int64_t outputs = t.dim(1) * t.dim(2);
  return rank == 2 ? t.reshape({t.dim(0), outputs}) : t.reshape({t.dim(0), outputs, t.dim(3)});
}

Tensor ExpertWeights::HeldProjection::matrices(Stream& s) const { return joined(weight.on(s), 3); }

Tensor ExpertWeights::HeldProjection::forward(Stream& s, const Tensor& x, const RowGroups& groups) const {
  const Tensor w = matrices(s);
  const Tensor out = empty_rows(x, w.dim(1));
  multiply(s, groups.own_part(out), groups.own_part(x), w, groups.rows, groups.dense);
  if (groups.has_shadows())
    multiply(s, groups.shadow_part(out), groups.shadow_part(x), joined(shadow_weight, 3), groups.shadows, groups.dense);
  add_bias(s, out, groups);
  return out;
}

void ExpertWeights::HeldProjection::add_bias(Stream& s, const Tensor& out, const RowGroups& groups) const {
  if (!adds_bias) return;
  const auto& k = kernels_of(out).bias;
  k.grouped_forward(s, groups.own_part(out), joined(bias.on(s), 2), groups.rows);
  if (groups.has_shadows()) k.grouped_forward(s, groups.shadow_part(out), joined(shadow_bias, 2), groups.shadows);
}

Tensor ExpertWeights::HeldProjection::input_gradient(Stream& s, const Tensor& dy, const RowGroups& groups) const {
  const Tensor w = matrices(s);
  const Tensor dx = empty_rows(dy, w.dim(2));
  multiply_back(s, groups.own_part(dx), groups.own_part(dy), w, groups.rows, groups.dense);
  if (groups.has_shadows())
    multiply_back(s, groups.shadow_part(dx), groups.shadow_part(dy), joined(shadow_weight, 3), groups.shadows,
                  groups.dense);
  return dx;
}

ExpertActivations ExpertWeights::before_activation(Stream& s, const Tensor& rows, const RowGroups& groups) const {
  return {.gate_up = gate_up_.forward(s, rows, groups), .activated = {}, .weights = {}};
}

ExpertActivations ExpertWeights::activations(Stream& s, const Tensor& rows, const RowGroups& groups,
                                             const Tensor& weights) const {
  if (groups.forward.duel) return contested_activations(s, rows, groups, weights);
  return groups.forward.fused ? fused_activations(s, rows, groups, weights)
                              : plain_activations(s, rows, groups, weights);
}

ExpertActivations ExpertWeights::plain_activations(Stream& s, const Tensor& rows, const RowGroups& groups,
                                                   const Tensor& weights) const {
  ExpertActivations m = before_activation(s, rows, groups);
  m.weights = weights;
  m.activated = activated_like(m);
  activate(s, m.activated, m);
  return m;
}

void ExpertWeights::require_fusible(const RowGroups& groups) const {
  base::require(kind_ == ExpertKind::swiglu && !swiglu_limit_ && !gate_up_.bias.defined() && !groups.dense &&
                    !groups.has_shadows(),
                "[experts] cannot compute a product and the activation in one kernel call for experts of kind ",
                base::enum_name(kind_), swiglu_limit_ ? ", with a limit" : "",
                gate_up_.bias.defined() ? ", with biases" : "", groups.dense ? ", with dense products" : "",
                groups.has_shadows() ? ", with shadows" : "",
                "; expected SwiGLU experts without biases and limits, grouped products, and no shadows");
}

ExpertActivations ExpertWeights::fused_activations(Stream& s, const Tensor& rows, const RowGroups& groups,
                                                   const Tensor& weights) const {
  require_fusible(groups);
  const Tensor w = gate_up_.matrices(s);
  const ExpertActivations m{empty_rows(rows, w.dim(1)), empty_rows(rows, w.dim(1) / 2), weights};
  kernels_of(rows).grouped_swiglu.forward(s, m.gate_up, m.activated, rows, w, groups.rows, weights);
  return m;
}

ExpertActivations ExpertWeights::contested_activations(Stream& s, const Tensor& rows, const RowGroups& groups,
                                                       const Tensor& weights) const {
  const auto results = [](ExpertActivations m) { return std::vector<Tensor>{m.gate_up, m.activated}; };
  const std::vector<Tensor> made = groups.forward.duel->contest(
      s, [&](Stream& here) { return results(plain_activations(here, rows, groups, weights)); },
      [&](Stream& here) { return results(fused_activations(here, rows, groups, weights)); },
      rows_of_groups(s, groups.rows), rows.dim(1));
  return {made[0], made[1], weights};
}

Tensor ExpertWeights::activated_like(const ExpertActivations& m) const {
  return empty_rows(m.gate_up, m.gate_up.dim(1) / (kind_ == ExpertKind::swiglu ? 2 : 1));
}

void ExpertWeights::activate(Stream& s, const Tensor& out, const ExpertActivations& m) const {
  if (kind_ == ExpertKind::gelu) return kernels_of(out).gelu.forward(s, out, m.gate_up, gelu_);
  const auto [gate, up] = kernels::gate_and_up(m.gate_up);
  if (swiglu_limit_) return kernels_of(out).clamped_swiglu.forward(s, out, gate, up, m.weights, *swiglu_limit_);
  kernels_of(out).swiglu.forward(s, out, gate, up, m.weights);
}

void ExpertWeights::swiglu_gradients(Stream& s, const SwigluGradients& gradients, const Tensor& dactivated,
                                     const SwigluSaved& saved) const {
  const KernelTable& k = kernels_of(dactivated);
  if (swiglu_limit_) return k.clamped_swiglu.backward(s, gradients, dactivated, saved, *swiglu_limit_);
  k.swiglu.backward(s, gradients, dactivated, saved);
}

Tensor ExpertWeights::output(Stream& s, const ExpertActivations& m, const RowGroups& groups) const {
  return down_.forward(s, m.activated, groups);
}

ExpertGradients ExpertWeights::input_gradients(Stream& s, ExpertActivations& m, const Tensor& doutput,
                                               const RowGroups& groups, const Tensor& dweights) const {
  ActivationGradients made = groups.backward.duel    ? contested_gradients(s, m, doutput, groups, dweights)
                             : groups.backward.fused ? fused_gradients(s, m, doutput, groups, dweights)
                                                     : plain_gradients(s, m, doutput, groups, dweights);
  if (m.weights.defined()) m.activated = std::move(made.activated);
  made.activated = {};  // frees the fused call's product, which is unused if there are no weights
  return {.gate_up = made.gate_up, .rows = row_gradient(s, made.gate_up, groups)};
}

ExpertWeights::ActivationGradients ExpertWeights::plain_gradients(Stream& s, const ExpertActivations& m,
                                                                  const Tensor& doutput, const RowGroups& groups,
                                                                  const Tensor& dweights) const {
  const Tensor dactivated = activated_gradient(s, doutput, groups), dgate_up = Tensor::like(m.gate_up);
  if (!m.weights.defined()) {
    gate_up_gradient(s, dgate_up, dactivated, m);
    return {dgate_up};
  }
  const auto [dgate, dup] = kernels::gate_and_up(dgate_up);
  const auto [gate, up] = kernels::gate_and_up(m.gate_up);
  // The kernel replaces the gradient in `dactivated` by `activated`.
  swiglu_gradients(s, {.dgate = dgate, .dup = dup, .product = dactivated, .dweights = dweights}, dactivated,
                   {gate, up, m.weights});
  return {dgate_up, dactivated};
}

ExpertWeights::ActivationGradients ExpertWeights::fused_gradients(Stream& s, const ExpertActivations& m,
                                                                  const Tensor& doutput, const RowGroups& groups,
                                                                  const Tensor& dweights) const {
  require_fusible(groups);
  const Tensor product = activated_like(m), dgate_up = Tensor::like(m.gate_up);
  kernels_of(doutput).grouped_swiglu.backward(s, {.dgate_up = dgate_up, .product = product, .dweights = dweights},
                                              doutput, down_.matrices(s), groups.rows, m.gate_up, m.weights);
  return {dgate_up, product};
}

ExpertWeights::ActivationGradients ExpertWeights::contested_gradients(Stream& s, const ExpertActivations& m,
                                                                      const Tensor& doutput, const RowGroups& groups,
                                                                      const Tensor& dweights) const {
  const bool weighted = m.weights.defined();
  const auto way = [&](auto gradients) {
    return [&, gradients](Stream& here) {
      const Tensor own = weighted ? Tensor::like(dweights) : Tensor{};
      const ActivationGradients made = (this->*gradients)(here, m, doutput, groups, own);
      return weighted ? std::vector<Tensor>{made.gate_up, made.activated, own} : std::vector<Tensor>{made.gate_up};
    };
  };
  // An element of the activation's gradient is a sum over the columns of `doutput`. An element of `dweights` is a sum
  // over the columns of the activation.
  const int64_t terms = std::max(doutput.dim(1), weighted ? m.gate_up.dim(1) / 2 : 0);
  const std::vector<Tensor> made =
      groups.backward.duel->contest(s, way(&ExpertWeights::plain_gradients), way(&ExpertWeights::fused_gradients),
                                    rows_of_groups(s, groups.rows), terms);
  if (!weighted) return {made[0]};
  dweights.copy_from(made[2], s);
  return {made[0], made[1]};
}

Tensor ExpertWeights::activated_gradient(Stream& s, const Tensor& doutput, const RowGroups& groups) const {
  return down_.input_gradient(s, doutput, groups);
}

void ExpertWeights::gate_up_gradient(Stream& s, const Tensor& dgate_up, const Tensor& dactivated,
                                     const ExpertActivations& m) const {
  if (kind_ == ExpertKind::gelu) return kernels_of(dactivated).gelu.backward(s, dgate_up, dactivated, m.gate_up, gelu_);
  const auto [dgate, dup] = kernels::gate_and_up(dgate_up);
  const auto [gate, up] = kernels::gate_and_up(m.gate_up);
  swiglu_gradients(s, {dgate, dup}, dactivated, {gate, up});
}

Tensor ExpertWeights::row_gradient(Stream& s, const Tensor& dgate_up, const RowGroups& groups) const {
  return gate_up_.input_gradient(s, dgate_up, groups);
}

void ExpertWeights::receive_shadows(Stream& s, const ep::HotExperts& hot, const comm::ProcessGroup& ranks) {
  std::vector<device::Event> arriving;
  for (HeldProjection* p : {&gate_up_, &down_}) {
    p->shadow_weight = broadcast_hot(s, p->weight, hot, ranks, arriving);
    p->shadow_bias = broadcast_hot(s, p->bias, hot, ranks, arriving);
  }
  for (const device::Event& e : arriving) s.wait(e);
}

void ExpertWeights::add_result_bias(Stream& s, const Tensor& results, const RowGroups& groups) const {
  down_.add_bias(s, results, groups);
}

}  // namespace hexad::moe
