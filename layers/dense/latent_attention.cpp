#include "layers/dense/latent_attention.h"

#include <array>
#include <cmath>

#include "parallel/tp/regions.h"

namespace hexad::layers {

using namespace autograd;
namespace {

double scale_of(const ModelConfig& c) {
  const double m = c.yarn.score_magnitude();
  return m * m / std::sqrt(static_cast<double>(c.latent.key_size()));
}

Norm::Config norm_of(int64_t size, const ModelConfig& c) {
  return {.size = size, .kind = NormKind::rms_norm, .eps = c.latent.norm_eps};
}

// Creates the projection "q_down", which compresses queries; returns none if queries are not compressed. Called before
// "q_up" is created, because parameters are in order of use.
std::optional<Linear> compression(const ModelConfig& c, const Builder& b) {
  if (c.latent.q_rank == 0) return {};
  return Linear({.inputs = c.hidden, .outputs = c.latent.q_rank, .init_std = c.init_std}, b / "q_down");
}

std::optional<Norm> norm_of_queries(const ModelConfig& c, const Builder& b) {
  if (c.latent.q_rank == 0) return {};
  return Norm(norm_of(c.latent.q_rank, c), b / "q_norm");
}

Linear::Config heads_from(int64_t inputs, int64_t size, const ModelConfig& c) {
  return {.inputs = inputs, .outputs = c.heads * size, .init_std = c.init_std, .parallel = Parallel::column};
}

}  // namespace

LatentAttention::LatentAttention(const ModelConfig& c, const RotaryTable& rotary, int64_t layer, const Builder& b)
    : SelfAttention(c, scale_of(c), layer, b),
      layer_(layer),
      heads_(c.heads / b.mesh().size(Axis::tp)),
      sizes_(c.latent),
      tensor_(b.tensor_parallel()),
      rotary_(rotary),
      q_down_(compression(c, b)),
      q_norm_(norm_of_queries(c, b)),
      q_(heads_from(q_down_ ? sizes_.q_rank : c.hidden, sizes_.key_size(), c), b / (q_down_ ? "q_up" : "q")),
      kv_down_({.inputs = c.hidden, .outputs = sizes_.kv_rank, .init_std = c.init_std}, b / "kv_down"),
      kv_norm_(norm_of(sizes_.kv_rank, c), b / "kv_norm"),
      k_rope_({.inputs = c.hidden, .outputs = sizes_.rope_size, .init_std = c.init_std}, b / "k_rope"),
      k_up_(heads_from(sizes_.kv_rank, sizes_.nope_size, c), b / "k_up"),
      v_up_(heads_from(sizes_.kv_rank, sizes_.value_size, c), b / "v_up"),
      output_({.inputs = c.heads * sizes_.value_size,
               .outputs = c.hidden,
               .init_std = c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers)),
               .bias = c.has_o_bias(),
               .parallel = Parallel::row},
              b / "output") {}

Value LatentAttention::queries(Tape& t, const Value& x, const MicroBatch& batch) const {
  const Value input = q_down_ ? (*q_norm_)(t, (*q_down_)(t, x)) : x;
  const std::array projection{q_.projection()};
  const Value q = tp::column_linear(t, input, projection, tensor_)[0];
  return rotary(t, reshape(t, q, {batch.rows(), heads_, sizes_.key_size()}), batch.positions, rotary_.cosine,
                rotary_.sine);
}

// Returns the rotated part of the keys for all rows, [rows, rope_size]. Each tp rank uses this part only for its own
// heads, and therefore computes only an addend of the gradient.
Value LatentAttention::rotary_part(Tape& t, const Value& x, const MicroBatch& batch) const {
  const Value own = k_rope_(t, x);
  const Value all = tensor_.sequence ? tp::gather_rows(t, own, *tensor_.group) : tp::enter(t, own, *tensor_.group);
  const Value turned =
      rotary(t, reshape(t, all, {batch.rows(), 1, sizes_.rope_size}), batch.positions, rotary_.cosine, rotary_.sine);
  return reshape(t, turned, {batch.rows(), sizes_.rope_size});
}

LatentAttention::Keys LatentAttention::keys(Tape& t, const Value& latent, const Value& rope,
                                            const tp::TensorParallel& tensor) const {
  const std::array projections{k_up_.projection(), v_up_.projection()};
  const std::vector<Value> up = tp::column_linear(t, latent, projections, tensor);
  const int64_t tokens = rope.data.dim(0);
  const Value k = reshape(t, up[0], {tokens, heads_, sizes_.nope_size});
  const Value v = reshape(t, up[1], {tokens, heads_, sizes_.value_size});
  return {join_heads(t, rope, k), resize_heads(t, v, sizes_.key_size())};
}

// Returns the attention [1, H, value size] of a sequence's last token to the rows of the cache. The token's queries are
// q[1, H, key size]. The latent contributes q^T (W latent) = (W^T q)^T latent to the score of a head, where W is the
// head's matrix of k_up. The result of a head is its matrix of v_up times the weighted sum of the latents.
Tensor LatentAttention::attend_absorbed(Stream& stream, const Tensor& q, const Tensor& rows) const {
  const auto& k = kernels::kernels(q.device());
  const int64_t rank = sizes_.kv_rank, rope = sizes_.rope_size, nope = sizes_.nope_size, value = sizes_.value_size;
  const auto heads_of = [&](int64_t size) { return Tensor::empty({heads_, size}, q.dtype(), q.device()); };
  const auto matrices = [&](const Linear& up, int64_t size) {
    return up.weight->use(stream).reshape({heads_, size, rank});
  };
  std::vector<int64_t> offsets;  // each head has one row
  for (int64_t h = 0; h <= heads_; ++h) offsets.push_back(h);
  const kernels::GroupOffsets by_head = kernels::GroupOffsets::on_host(offsets);

  const Tensor query = q.reshape({heads_, sizes_.key_size()});
  const Tensor own = heads_of(nope), absorbed = heads_of(rank), joined = heads_of(row_size());
  k.pointwise.copy(stream, own, query.slice(1, rope, rope + nope));
  k.grouped_matmul.input_gradient(stream, absorbed, own, matrices(k_up_, nope), by_head, kernels::Write::replace);
  k.pointwise.copy(stream, joined.slice(1, 0, rope), query.slice(1, 0, rope));
  k.pointwise.copy(stream, joined.slice(1, rope, row_size()), absorbed);
  const Tensor sums = attend_from_last(stream, joined.reshape({1, heads_, row_size()}), rows);
  const Tensor latents = heads_of(rank), out = heads_of(value);
  k.pointwise.copy(stream, latents, sums.reshape({heads_, row_size()}).slice(1, rope, row_size()));
  k.grouped_matmul.forward(stream, out, latents, matrices(v_up_, value), by_head, kernels::Write::replace);
  return out.reshape({1, heads_, value});
}

// Computes the attention [new tokens, H, value size] of the new tokens of one sequence to themselves and to earlier
// tokens. The cache contains the rows of all earlier tokens. Appends the rows of the new tokens.
Value LatentAttention::attend_to_cache(Tape& t, const Value& q, const Value& latent, const Value& rope,
                                       KeyValueCache& cache) const {
  const int64_t tokens = latent.data.dim(0), begin = cache.length, end = begin + tokens, rotated = sizes_.rope_size;
  const Tensor rows = cache.layers[layer_].keys.slice(0, 0, end);
  const Tensor flat = rows.reshape({end, row_size()});
  const auto& copy = kernels::kernels(q.device()).pointwise.copy;
  copy(t.stream, flat.slice(0, begin, end).slice(1, 0, rotated), rope.data);
  copy(t.stream, flat.slice(0, begin, end).slice(1, rotated, row_size()), latent.data);
  if (tokens == 1) return {attend_absorbed(t.stream, q.data, rows)};
  const auto columns = [&](int64_t first, int64_t last) {
    const Tensor out = Tensor::empty({end, last - first}, flat.dtype(), flat.device());
    copy(t.stream, out, flat.slice(1, first, last));
    return Value{out};
  };
  const Keys all = begin == 0 ? keys(t, latent, rope, {tensor_.group, false})
                              : keys(t, columns(rotated, row_size()), columns(0, rotated), {tensor_.group, false});
  return resize_heads(t, attend_from(t, begin, q, all.k, all.v), sizes_.value_size);
}

// Computes the attention of the new tokens of each sequence. Rows of padding are zero in the result and are not added
// to a cache.
Value LatentAttention::attend_to_caches(Tape& t, const Value& q, const Value& latent, const Value& rope,
                                        const ForwardContext& context) const {
  const MicroBatch& batch = context.batch;
  if (batch.sequences == 1 && !batch.valid.defined()) return attend_to_cache(t, q, latent, rope, *context.caches[0]);
  const Tensor out = Tensor::zeros({q.data.dim(0), heads_, sizes_.value_size}, q.data.dtype(), q.device());
  for (int64_t s = 0; s < static_cast<int64_t>(context.caches.size()); ++s) {
    const int64_t begin = s * batch.length, end = begin + batch.valid_in(s);
    const auto rows = [&](const Value& x) { return Value{x.data.slice(0, begin, end)}; };
    const Value y = attend_to_cache(t, rows(q), rows(latent), rows(rope), *context.caches[s]);
    kernels::kernels(out.device()).pointwise.copy(t.stream, out.slice(0, begin, end), y.data);
  }
  return {out};
}

Value LatentAttention::operator()(Tape& t, const Value& x, const ForwardContext& context) const {
  const Value q = queries(t, x, context.batch), own = compressed(t, x), rope = rotary_part(t, x, context.batch);
  const auto attended = [&] {
    if (!context.caches.empty()) {
      const Value all = tensor_.sequence ? tp::gather_rows(t, own, *tensor_.group) : own;
      return attend_to_caches(t, q, all, rope, context);
    }
    const Keys all = keys(t, own, rope, tensor_);
    return resize_heads(t, attend(t, q, all.k, all.v, context), sizes_.value_size);
  };
  return tp::row_linear(t, reshape(t, attended(), {context.batch.rows(), heads_ * sizes_.value_size}), *output_.weight,
                        output_.bias, tensor_);
}

KeyValueCache::Layer LatentAttention::make_cache(int64_t length, Dtype dtype, Device device) const {
  return {Tensor::empty({length, 1, row_size()}, dtype, device), {}};
}

}  // namespace hexad::layers
