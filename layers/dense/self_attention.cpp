#include "layers/dense/self_attention.h"

#include <algorithm>

#include "parallel/cp/context_attention.h"

namespace hexad::layers {

SelfAttention::SelfAttention(const ModelConfig& c, double scale, int64_t layer, const Builder& b)
    : scale_(scale),
      causal_(c.kind == ModelKind::decoder),
      deterministic_(b.deterministic()),
      cp_group_(&b.mesh()[Axis::cp]),
      context_kind_(b.context_kind()),
      window_(c.window_of(layer)),
      chunk_(c.chunk_of(layer)),
      value_size_(c.size_of_value()) {
  if (c.sinks)
    sinks_ = autograd::AttentionSinks(b.parameter("sinks", {c.heads},
                                                  {.init = {autograd::Init::Kind::normal, c.init_std},
                                                   .decay = false,
                                                   .placement = b.shard(0),
                                                   .accumulator = true}));
}

// Passes the chunks as documents if the layer has chunks. The window then has the size of a chunk, so it hides only
// keys of other chunks.
Value SelfAttention::attend(Tape& t, const Value& q, const Value& k, const Value& v,
                            const ForwardContext& context) const {
  const MicroBatch& batch = context.batch;
  base::require(chunk_ == 0 || batch.chunk_first.defined(), "[attention] the model has chunks of ", chunk_,
                " tokens, but the micro-batch has no chunk_first; expected a micro-batch with chunk_first");
  return cp::context_attention(t, q, k, v,
                               {.split = batch.split(),
                                .kind = context_kind_,
                                .group = cp_group_,
                                .causal = causal_,
                                .scale = scale_,
                                .deterministic = deterministic_,
                                .first = chunk_ > 0 ? batch.chunk_first : batch.first,
                                .last = chunk_ > 0 ? batch.chunk_last : batch.last,
                                .documents = chunk_ > 0 ? batch.chunks : batch.documents,
                                .window = window_,
                                .value_size = value_size_,
                                .sinks = sinks_});
}

Value SelfAttention::attend_from(Tape& t, int64_t begin, const Value& q, const Value& k, const Value& v) const {
  if (chunk_ == 0) return attend_in_chunk(t, begin, q, k, v);
  const Tensor out = Tensor::empty({q.data.dim(0), q.data.dim(1), v.data.dim(2)}, q.data.dtype(), q.device());
  for (int64_t at = begin, end = begin + q.data.dim(0); at < end;) {
    const int64_t first = at / chunk_ * chunk_, last = std::min(end, first + chunk_);
    const auto keys = [&](const Value& x) { return Value{x.data.slice(0, first, last)}; };
    const Value y = attend_in_chunk(t, at - first, {q.data.slice(0, at - begin, last - begin)}, keys(k), keys(v));
    kernels::kernels(out.device()).pointwise.copy(t.stream, out.slice(0, at - begin, last - begin), y.data);
    at = last;
  }
  return {out};
}

Value SelfAttention::attend_in_chunk(Tape& t, int64_t begin, const Value& q, const Value& k, const Value& v) const {
  const kernels::AttentionShape shape{.sequences = 1,
                                      .queries = q.data.dim(0),
                                      .keys = k.data.dim(0),
                                      .scale = scale_,
                                      .causal = causal_,
                                      .query_offset = begin,
                                      .deterministic = deterministic_,
                                      .window = window_,
                                      .value_size = value_size_};
  return autograd::attention(t, q, k, v, {}, {}, shape, sinks_);
}

// The kernel receives the heads as queries of one head, so that it reads the rows once for all heads. A causal mask is
// not needed: only the rows of the last token's window or chunk are passed, and the last token attends to all of these
// rows.
Tensor SelfAttention::attend_from_last(Stream& stream, const Tensor& q, const Tensor& rows) const {
  const int64_t heads = q.dim(1), size = q.dim(2), end = rows.dim(0);
  const int64_t in_window = window_ > 0 ? std::max<int64_t>(0, end - window_) : 0;
  const Tensor seen = rows.slice(0, chunk_ > 0 ? (end - 1) / chunk_ * chunk_ : in_window, end);
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
