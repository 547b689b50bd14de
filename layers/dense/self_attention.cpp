#include "layers/dense/self_attention.h"

#include <algorithm>

#include "parallel/cp/context_attention.h"

namespace hexad::layers {

SelfAttention::SelfAttention(const ModelConfig& c, double scale, int64_t layer, const Builder& b)
    : scale_(scale),
      causal_(c.kind == ModelKind::decoder),
      deterministic_(b.deterministic()),
      context_(&b.mesh()[Axis::cp]),
      context_kind_(b.context_kind()),
      window_(c.window_of(layer)) {
  if (c.sinks)
    sinks_ = autograd::AttentionSinks(b.parameter("sinks", {c.heads},
                                                  {.init = {autograd::Init::Kind::normal, c.init_std},
                                                   .decay = false,
                                                   .placement = b.shard(0),
                                                   .accumulator = true}));
}

Value SelfAttention::attend(Tape& t, const Value& q, const Value& k, const Value& v, const ForwardContext& pass) const {
  return cp::context_attention(t, q, k, v,
                               {.split = pass.batch.split(),
                                .kind = context_kind_,
                                .group = context_,
                                .causal = causal_,
                                .scale = scale_,
                                .deterministic = deterministic_,
                                .first = pass.batch.first,
                                .last = pass.batch.last,
                                .documents = pass.batch.documents,
                                .window = window_,
                                .sinks = sinks_});
}

Value SelfAttention::attend_from(Tape& t, int64_t begin, const Value& q, const Value& k, const Value& v) const {
  const kernels::AttentionShape shape{.sequences = 1,
                                      .queries = q.data.dim(0),
                                      .keys = k.data.dim(0),
                                      .scale = scale_,
                                      .causal = causal_,
                                      .query_offset = begin,
                                      .deterministic = deterministic_,
                                      .window = window_};
  return autograd::attention(t, q, k, v, {}, {}, shape, sinks_);
}

// The kernel receives the heads as queries of one head, so that it reads the rows once for all heads. It needs no
// causal mask, because the last token sees all rows of its window.
Tensor SelfAttention::attend_from_last(Stream& stream, const Tensor& q, const Tensor& rows) const {
  const int64_t heads = q.dim(1), size = q.dim(2), end = rows.dim(0);
  const Tensor seen = rows.slice(0, window_ > 0 ? std::max<int64_t>(0, end - window_) : 0, end);
  const kernels::AttentionShape shape{.sequences = 1,
                                      .queries = heads,
                                      .keys = seen.dim(0),
                                      .scale = scale_,
                                      .causal = false,
                                      .deterministic = deterministic_};
  const Tensor out = Tensor::empty({heads, 1, size}, q.dtype(), q.device());
  const Tensor log_sum_exp = Tensor::empty({heads, 1}, accumulator_dtype(q.dtype()), q.device());
  kernels::kernels(q.device())
      .attention.forward(stream, out, log_sum_exp, q.reshape({heads, 1, size}), seen, seen, {}, {}, shape);
  const Tensor result = out.reshape({1, heads, size});
  sinks_.add(stream, result, log_sum_exp.reshape({1, heads}));
  return result;
}

}  // namespace hexad::layers
