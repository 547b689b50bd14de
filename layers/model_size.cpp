#include "layers/model_size.h"

namespace hexad::layers {
namespace {

// Weights of products and of everything else (norms, biases) of some part of the model.
struct Count {
  int64_t products = 0, other = 0;

  Count& operator+=(const Count& c) {
    products += c.products, other += c.other;
    return *this;
  }
  friend Count operator*(int64_t n, const Count& c) { return {n * c.products, n * c.other}; }
  int64_t all() const { return products + other; }
};

Count norm(const ModelConfig& c) { return {0, c.norm == NormKind::layer_norm && c.bias ? 2 * c.hidden : c.hidden}; }

Count linear(int64_t inputs, int64_t outputs, bool bias) { return {inputs * outputs, bias ? outputs : 0}; }

Count attention(const ModelConfig& c) {
  const int64_t query = c.heads * c.size_of_head(), key = c.key_value_heads() * c.size_of_head();
  Count n = linear(c.hidden, query, c.bias);
  n += 2 * linear(c.hidden, key, c.bias);
  n += linear(query, c.hidden, c.bias);
  if (c.qk_norm) n.other += 2 * c.size_of_head();
  return n;
}

Count mlp(const ModelConfig& c, int64_t width, bool gated) {
  Count n = (gated ? 2 : 1) * linear(c.hidden, width, c.bias);
  n += linear(width, c.hidden, c.bias);
  return n;
}

Count dense_mlp(const ModelConfig& c) {
  if (c.mlp != "swiglu" && c.mlp != "gelu") return {};
  return mlp(c, c.dense_hidden(), c.mlp == "swiglu");
}

}  // namespace

ModelSize model_size(const ModelConfig& c) {
  Count everywhere, experts, active_experts;
  const bool gated = c.moe.expert == moe::ExpertKind::swiglu;
  for (int64_t l = 0; l < c.layers; ++l) {
    everywhere += 2 * norm(c);
    everywhere += attention(c);
    if (!c.is_moe(l) || c.moe.dense_residual) everywhere += dense_mlp(c);
    if (!c.is_moe(l)) continue;
    everywhere += Count{c.hidden * c.moe.experts, 0};
    const Count one = mlp(c, c.moe.expert_hidden, gated);
    experts += c.moe.experts * one;
    active_experts += c.moe.top_k * one;
    if (c.moe.shared_experts > 0)
      everywhere += mlp(c, c.moe.shared_experts * c.moe.shared_hidden.value_or(c.moe.expert_hidden), gated);
  }
  everywhere += norm(c);
  const Count head{c.vocab * c.hidden, 0};
  int64_t tables = c.tied_embedding ? 0 : c.vocab * c.hidden;
  if (c.position == PositionKind::learned) tables += c.context * c.hidden;

  ModelSize size;
  size.expert_parameters = experts.all();
  size.parameters = everywhere.all() + experts.all() + head.all() + tables;
  size.active_parameters = everywhere.all() + active_experts.all() + head.all() + tables;
  const double products = static_cast<double>(everywhere.products + active_experts.products + head.products);
  // Scores and their product with the values: 2 + 2 operations for each key seen, three times with backward.
  const double keys = static_cast<double>(c.context) * (c.kind == ModelKind::decoder ? 0.5 : 1.0);
  const double attended = 12.0 * static_cast<double>(c.layers * c.heads * c.size_of_head()) * keys;
  size.flops_per_token = 6 * products + attended;
  return size;
}

}  // namespace hexad::layers
