#include "tools/hexad/memory_estimate.h"

#include <algorithm>

#include "layers/model_size.h"

namespace hexad::app {
namespace {

using layers::ModelConfig;
using layers::Recompute;

// Elements saved by one block for each token, in the model's dtype; what is in accumulator dtype is small and left out,
// except the router's input copy in bf16 runs.
struct SavedElements {
  double norms, attention, mlp, input;
};

SavedElements saved_by_block(const ModelConfig& c, int64_t layer) {
  const double hidden = static_cast<double>(c.hidden);
  const double query = static_cast<double>(c.heads * c.size_of_head());
  const double key = static_cast<double>(c.key_value_heads() * c.size_of_head());
  SavedElements s{};
  s.input = hidden;
  s.norms = 2 * hidden;                                                     // outputs, read by the products that follow
  s.attention = query + 2 * key + query + (c.qk_norm ? query + key : 0.0);  // q, k, v after rotation; out
  const auto mlp = [&](double width, bool gated) { return (gated ? 3.0 : 2.0) * width; };
  s.mlp = hidden;  // input of its norm
  if (!c.is_moe(layer) || c.moe.dense_residual) s.mlp += mlp(static_cast<double>(c.dense_hidden()), c.mlp == "swiglu");
  if (c.is_moe(layer)) {
    const bool gated = c.moe.expert == moe::ExpertKind::swiglu;
    const double width = static_cast<double>(c.moe.expert_hidden);
    s.mlp += static_cast<double>(c.moe.top_k) * (2 * hidden + mlp(width, gated));  // dispatched and returned rows
    if (c.moe.shared_experts > 0)
      s.mlp +=
          mlp(static_cast<double>(c.moe.shared_experts * c.moe.shared_hidden.value_or(c.moe.expert_hidden)), gated);
  }
  return s;
}

}  // namespace

MemoryEstimate estimate_memory(const Recipe& r) {
  const auto size = layers::model_size(r.model);
  const auto dtype = dtype_of(r.train.precision);
  const auto width = static_cast<double>(base::size_of(dtype));
  const auto acc = static_cast<double>(base::size_of(base::accumulator_dtype(dtype)));
  const double local = static_cast<double>(size.parameters - size.expert_parameters) +
                       static_cast<double>(size.expert_parameters) / static_cast<double>(r.parallel.ep);
  MemoryEstimate m;
  m.weights = local * width;
  m.gradients = local * acc;
  const double copies = (width == acc ? 0.0 : 1.0) + (r.optim.kind == optim::OptimizerKind::adamw ? 2.0 : 0.0);
  m.optimizer = local * acc * copies;

  double elements = 0, largest_block = 0;
  for (int64_t l = 0; l < r.model.layers; ++l) {
    const SavedElements s = saved_by_block(r.model, l);
    const double all = s.input + s.norms + s.attention + s.mlp;
    switch (r.recompute) {
      case Recompute::none:
        elements += all;
        break;
      case Recompute::norms:
        elements += all - s.norms;
        break;
      case Recompute::attention:
        elements += all - s.attention - s.norms / 2;
        largest_block = std::max(largest_block, s.attention + s.norms / 2);
        break;
      case Recompute::block:
        elements += s.input;
        largest_block = std::max(largest_block, all - s.input);
        break;
    }
  }
  elements += largest_block + 2 * static_cast<double>(r.model.hidden);
  m.activations = elements * static_cast<double>(r.batch.micro * r.model.context) * width;
  return m;
}

}  // namespace hexad::app
