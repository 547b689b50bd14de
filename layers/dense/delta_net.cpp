#include "layers/dense/delta_net.h"

#include <cmath>

#include "parallel/cp/delta_net_ops.h"

namespace hexad::layers {

using namespace autograd;
using namespace base;
namespace {

// Initial value of "shift". With logits near zero and rates near one, a state then decays by about 5% per token.
constexpr double initial_shift = -3;

Linear::Config columns(int64_t outputs, const ModelConfig& c) {
  return {.inputs = c.hidden, .outputs = outputs, .init_std = c.init_std, .parallel = Parallel::column};
}

Parameter* convolution(int64_t width, const DeltaNetConfig& d, const Builder& b) {
  const Init init{Init::Kind::normal, 1 / std::sqrt(static_cast<double>(d.conv_size))};
  return &b.parameter("weight", {width, d.conv_size}, {.init = init, .placement = b.shard(0)});
}

Parameter* per_head_parameter(const std::string& name, Init init, const DeltaNetConfig& d, const Builder& b) {
  return &b.parameter(name, {d.heads}, {.init = init, .decay = false, .placement = b.shard(0), .accumulator = true});
}

}  // namespace

DeltaNet::DeltaNet(const ModelConfig& c, int64_t layer, const Builder& b)
    : layer_(layer),
      key_heads_(c.delta_net.number_of_key_heads() / b.mesh().size(Axis::tp)),
      heads_(c.delta_net.heads / b.mesh().size(Axis::tp)),
      sizes_(c.delta_net),
      tensor_(b.tensor_parallel()),
      cp_group_(&b.mesh()[Axis::cp]),
      q_(columns(sizes_.key_width(), c), b / "q"),
      k_(columns(sizes_.key_width(), c), b / "k"),
      v_(columns(sizes_.value_width(), c), b / "v"),
      gate_(columns(sizes_.value_width(), c), b / "gate"),
      decay_(columns(sizes_.heads, c), b / "decay"),
      write_(columns(sizes_.heads, c), b / "write"),
      log_rate_(per_head_parameter("log_rate", {Init::Kind::normal, 1}, sizes_, b)),
      shift_(per_head_parameter("shift", {Init::Kind::constant, initial_shift}, sizes_, b)),
      convolutions_{convolution(sizes_.key_width(), sizes_, b / "q_conv"),
                    convolution(sizes_.key_width(), sizes_, b / "k_conv"),
                    convolution(sizes_.value_width(), sizes_, b / "v_conv")},
      norm_({.size = sizes_.value_size, .kind = NormKind::rms_norm, .eps = sizes_.norm_eps, .placement = b.partial()},
            b / "norm"),
      output_({.inputs = sizes_.value_width(),
               .outputs = c.hidden,
               .init_std = c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers)),
               .parallel = Parallel::row},
              b / "output") {}

// Computes the outputs [rows, heads, value_size] of the rule for the whole sequences of the micro-batch.
Value DeltaNet::run(Tape& t, const Inputs& in, const ForwardContext& context) const {
  const cp::DeltaRows rows{.split = context.batch.split(), .group = cp_group_, .first = context.batch.first};
  const auto heads_of = [&](size_t which, int64_t heads, int64_t size) {
    const Value y = cp::causal_conv(t, in.qkv[which], *convolutions_[which], rows);
    return reshape(t, y, {context.batch.rows(), heads, size});
  };
  const Value q = heads_of(0, key_heads_, sizes_.key_size), k = heads_of(1, key_heads_, sizes_.key_size),
              v = heads_of(2, heads_, sizes_.value_size);
  return cp::delta_rule(t, {q, k, v, in.log_decay, in.strength}, rows);
}

// Computes the outputs of the new tokens of one sequence. The cache holds the state after all earlier tokens, and
// receives the state after the new tokens.
Tensor DeltaNet::run_with_cache(Stream& stream, const Inputs& in, KeyValueCache& cache) const {
  const KeyValueCache::Layer& layer = cache.layers[layer_];
  const int64_t tokens = in.log_decay.data.dim(0), earlier = sizes_.conv_size - 1;
  const kernels::SequenceRows rows{.sequences = 1, .begin = cache.length};
  const auto& k = kernels::kernels(in.log_decay.device());
  std::array<Tensor, 3> convolved;
  for (size_t i = 0; i < convolved.size(); ++i) {
    const Tensor& x = in.qkv[i].data;
    convolved[i] = Tensor::like(x);
    k.causal_conv.forward(stream, convolved[i], {x, convolutions_[i]->use(stream), layer.recent[i], {}}, rows);
    const Tensor all = Tensor::empty({earlier + tokens, x.dim(1)}, x.dtype(), x.device());
    k.pointwise.copy(stream, all.slice(0, 0, earlier), layer.recent[i]);
    k.pointwise.copy(stream, all.slice(0, earlier, earlier + tokens), x);
    k.pointwise.copy(stream, layer.recent[i], all.slice(0, tokens, earlier + tokens));
  }
  const Shape of_keys{tokens, key_heads_, sizes_.key_size}, of_values{tokens, heads_, sizes_.value_size};
  const Tensor out = Tensor::empty(of_values, convolved[2].dtype(), convolved[2].device());
  k.delta_rule.forward(stream, out, layer.state,
                       {convolved[0].reshape(of_keys),
                        convolved[1].reshape(of_keys),
                        convolved[2].reshape(of_values),
                        in.log_decay.data,
                        in.strength.data,
                        layer.state,
                        {}},
                       rows);
  return out;
}

// Computes the outputs of the new tokens of each sequence. Rows of padding are zero in the result and do not change a
// cache.
Value DeltaNet::run_with_caches(Tape& t, const Inputs& in, const ForwardContext& context) const {
  const MicroBatch& batch = context.batch;
  if (batch.sequences == 1 && !batch.valid.defined()) return {run_with_cache(t.stream, in, *context.caches[0])};
  const Tensor out =
      Tensor::zeros({batch.rows(), heads_, sizes_.value_size}, in.qkv[2].data.dtype(), in.qkv[2].device());
  for (int64_t s = 0; s < static_cast<int64_t>(context.caches.size()); ++s) {
    const int64_t begin = s * batch.length, end = begin + batch.valid_in(s);
    const auto rows = [&](const Value& x) { return Value{x.data.slice(0, begin, end)}; };
    const Tensor y = run_with_cache(
        t.stream, {{rows(in.qkv[0]), rows(in.qkv[1]), rows(in.qkv[2])}, rows(in.log_decay), rows(in.strength)},
        *context.caches[s]);
    kernels::kernels(out.device()).pointwise.copy(t.stream, out.slice(0, begin, end), y);
  }
  return {out};
}

Value DeltaNet::operator()(Tape& t, const Value& x, const ForwardContext& context) const {
  const std::array projections{q_.projection(),    k_.projection(),     v_.projection(),
                               gate_.projection(), decay_.projection(), write_.projection()};
  const std::vector<Value> projected = tp::column_linear(t, x, projections, tensor_);
  const DeltaGates gates = delta_gates(t, projected[4], projected[5], *log_rate_, *shift_);
  const Inputs in{{projected[0], projected[1], projected[2]}, gates.log_decay, gates.strength};
  const Value y = context.caches.empty() ? run(t, in, context) : run_with_caches(t, in, context);
  const Value gate = reshape(t, projected[3], {context.batch.rows(), heads_, sizes_.value_size});
  const Value gated = silu_gate(t, gate, norm_(t, y));
  return tp::row_linear(t, reshape(t, gated, {context.batch.rows(), heads_ * sizes_.value_size}), *output_.weight,
                        output_.bias, tensor_);
}

KeyValueCache::Layer DeltaNet::make_cache(int64_t, Dtype dtype, Device device) const {
  KeyValueCache::Layer layer;
  layer.state = Tensor::zeros({1, heads_, sizes_.key_size, sizes_.value_size}, accumulator_dtype(dtype), device);
  const std::array widths{key_heads_ * sizes_.key_size, key_heads_ * sizes_.key_size, heads_ * sizes_.value_size};
  for (size_t i = 0; i < widths.size(); ++i)
    layer.recent[i] = Tensor::zeros({sizes_.conv_size - 1, widths[i]}, dtype, device);
  return layer;
}

}  // namespace hexad::layers
