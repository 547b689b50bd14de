#include "layers/dense/self_attention.h"

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

}  // namespace hexad::layers
