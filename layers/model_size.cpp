#include "layers/model_size.h"

#include <numeric>

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

// One block: what every token meets, and one of its experts.
struct BlockCount {
  Count everywhere, expert;
};

BlockCount block(const ModelConfig& c, int64_t layer) {
  BlockCount n;
  n.everywhere += 2 * norm(c);
  n.everywhere += attention(c);
  if (!c.is_moe(layer) || c.moe.dense_residual) n.everywhere += dense_mlp(c);
  if (!c.is_moe(layer)) return n;
  const bool gated = c.moe.expert == moe::ExpertKind::swiglu;
  n.everywhere += Count{c.hidden * c.moe.experts, 0};
  if (c.moe.shared_experts > 0)
    n.everywhere += mlp(c, c.moe.shared_experts * c.moe.shared_hidden.value_or(c.moe.expert_hidden), gated);
  n.expert = mlp(c, c.moe.expert_hidden, gated);
  return n;
}

}  // namespace

PartFlops flops_by_part(const ModelConfig& c) {
  // Scores and their product with the values: 2 + 2 operations for each key seen, three times with backward.
  const double keys = static_cast<double>(c.context) * (c.kind == ModelKind::decoder ? 0.5 : 1.0);
  const double attended = 12.0 * static_cast<double>(c.heads * c.size_of_head()) * keys;
  PartFlops flops;
  for (int64_t l = 0; l < c.layers; ++l) {
    const BlockCount n = block(c, l);
    flops.layers.push_back(6 * static_cast<double>(n.everywhere.products + c.moe.top_k * n.expert.products) + attended);
  }
  flops.head = 6 * static_cast<double>(c.vocab * c.hidden);
  return flops;
}

ModelSize model_size(const ModelConfig& c) {
  int64_t everywhere = norm(c).all() + c.vocab * c.hidden;  // final norm and head
  ModelSize size;
  for (int64_t l = 0; l < c.layers; ++l) {
    const BlockCount n = block(c, l);
    everywhere += n.everywhere.all();
    size.expert_parameters += c.moe.experts * n.expert.all();
    size.active_parameters += c.moe.top_k * n.expert.all();
  }
  if (!c.tied_embedding) everywhere += c.vocab * c.hidden;
  if (c.position == PositionKind::learned) everywhere += c.context * c.hidden;
  size.parameters = everywhere + size.expert_parameters;
  size.active_parameters += everywhere;
  const PartFlops flops = flops_by_part(c);
  size.flops_per_token = std::accumulate(flops.layers.begin(), flops.layers.end(), flops.head);
  return size;
}

}  // namespace hexad::layers
