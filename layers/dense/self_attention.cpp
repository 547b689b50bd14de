#include "layers/dense/self_attention.h"

#include "parallel/cp/context_attention.h"

namespace hexad::layers {

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
                                .documents = pass.batch.documents});
}

Value SelfAttention::attend_from(Tape& t, int64_t begin, const Value& q, const Value& k, const Value& v) const {
  const kernels::AttentionShape shape{.sequences = 1,
                                      .queries = q.data.dim(0),
                                      .keys = k.data.dim(0),
                                      .scale = scale_,
                                      .causal = causal_,
                                      .query_offset = begin,
                                      .deterministic = deterministic_};
  return autograd::attention(t, q, k, v, {}, {}, shape);
}

}  // namespace hexad::layers
