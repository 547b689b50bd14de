#include "tools/hexad/memory_estimate.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "layers/moe/memory_limit.h"
#include "tools/hexad/held_parameters.h"
#include "tools/hexad/stages.h"
#include "tools/plan/parameter_memory.h"

namespace hexad::app {

using base::Axis;
using layers::ModelConfig;
using layers::Recompute;

namespace {

// Elements saved by one block for each of the tokens of a tp group, in the model's dtype; what is in accumulator dtype
// is small and left out, except the router's input copy in bf16 runs.
struct SavedElements {
  double norms, attention, mlp, input;
};

// In a recomputed block everything is kept, for as long as the block is there.
bool restores(const Recipe& r) {
  return r.schedule.moe.settled().restore != moe::Restore::keep && r.recompute != Recompute::block;
}

SavedElements saved_by_block(const Recipe& r, const mesh::Layout& layout, int64_t layer) {
  const ModelConfig& c = r.model;
  const auto tp = static_cast<double>(layout.size(Axis::tp)), etp = static_cast<double>(layout.size(Axis::etp));
  const double hidden = static_cast<double>(c.hidden), rows = r.parallel.sp ? 1 / tp : 1;  // of what is whole in width
  const double query = static_cast<double>(c.heads * c.size_of_head()) / tp;
  const double key =
      std::max(static_cast<double>(c.key_value_heads()) / tp, 1.0) * static_cast<double>(c.size_of_head());
  SavedElements s{};
  s.input = rows * hidden;
  s.norms = 2 * rows * hidden;                                              // outputs, read by the products that follow
  s.attention = query + 2 * key + query + (c.qk_norm ? query + key : 0.0);  // q, k, v after rotation; out
  const auto mlp = [&](double width, bool gated) { return (gated ? 3.0 : 2.0) * width; };
  s.mlp = rows * hidden;  // input of its norm
  if (!c.is_moe(layer) || c.moe.dense_residual)
    s.mlp += mlp(static_cast<double>(c.dense_hidden()) / tp, c.mlp == "swiglu");
  if (c.is_moe(layer)) {
    const bool gated = c.moe.expert == moe::ExpertKind::swiglu;
    const double width = static_cast<double>(c.moe.expert_hidden) / etp;
    // Each tp rank sends its own tokens; etp ranks gather each other's rows. Dispatched and returned rows.
    if (!restores(r)) s.mlp += static_cast<double>(c.moe.top_k) / tp * etp * (2 * hidden + mlp(width, gated));
    if (c.moe.shared_experts > 0)
      s.mlp += mlp(static_cast<double>(c.moe.shared_experts * c.moe.shared_hidden.value_or(c.moe.expert_hidden)) / tp,
                   gated);
  }
  return s;
}

double activation_bytes(const Recipe& r, const mesh::Layout& layout, int rank) {
  const pp::StageSplit split = stage_split(r);
  const int stage = layout.coordinate(Axis::pp, rank);
  double elements = 0, largest_block = 0;
  const auto add = [&](int64_t l) {
    const SavedElements s = saved_by_block(r, layout, l);
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
  };
  for (int chunk = 0; chunk < split.stages().chunks; ++chunk) {
    for (int64_t l = split.layers(stage, chunk).begin; l < split.layers(stage, chunk).end; ++l) add(l);
    if (split.has_head(stage, chunk)) elements += 2 * static_cast<double>(r.model.hidden);
  }
  const double tokens = static_cast<double>(r.batch.micro * r.model.context) / layout.size(Axis::cp);
  return (elements + largest_block) * tokens * static_cast<double>(base::size_of(dtype_of(r.train.precision)));
}

bool has_experts(const Recipe& r, const mesh::Layout& layout, int rank) {
  const pp::StageSplit split = stage_split(r);
  const int stage = layout.coordinate(Axis::pp, rank);
  for (int chunk = 0; chunk < split.stages().chunks; ++chunk)
    for (int64_t l = split.layers(stage, chunk).begin; l < split.layers(stage, chunk).end; ++l)
      if (r.model.is_moe(l)) return true;
  return false;
}

// One pass of the rank is under way at a time.
double buffer_bytes(const Recipe& r, const mesh::Layout& layout, int rank) {
  if (!restores(r) || !has_experts(r, layout, rank)) return 0;
  const moe::MoeSchedule s = r.schedule.moe.settled();
  const moe::MoeConfig& m = r.model.moe;
  const int64_t etp = layout.size(Axis::etp);
  const int64_t tokens = r.batch.micro * r.model.context / layout.size(Axis::cp) / layout.size(Axis::tp);
  const int64_t rows = (tokens + s.parts - 1) / s.parts * m.top_k * etp;
  const moe::ExpertShape shape{r.model.hidden, (m.expert_hidden + etp - 1) / etp, m.expert == moe::ExpertKind::swiglu};
  const int64_t bytes = moe::buffer_bytes(rows, rows, shape, s.restore, dtype_of(r.train.precision));
  return static_cast<double>(std::min(bytes, s.memory_limit.value_or(bytes)));
}

}  // namespace

MemoryEstimate estimate_memory(const Recipe& r, const mesh::Layout& layout, int rank) {
  const auto dtype = dtype_of(r.train.precision);
  const auto width = static_cast<double>(base::size_of(dtype));
  const auto acc = static_cast<double>(base::size_of(base::accumulator_dtype(dtype)));
  const double moments = r.optim.kind == optim::OptimizerKind::adamw ? 2 * acc : 0;
  MemoryEstimate m;
  for (const HeldParameters& h : held_parameters(r, layout, rank)) {
    const double weights = h.accumulator ? acc : width;
    const double gradients = r.optim.grad_dtype == optim::GradientDtype::bf16 ? std::min(weights, acc) : acc;
    const plan::ParameterBytes whole{weights, gradients, moments + (weights == acc ? 0 : acc)};
    // Stages do not use a tied embedding at the same time: its weights stay whole.
    const int64_t zero = h.two_stages ? std::min<int64_t>(r.parallel.zero, 2) : r.parallel.zero;
    const plan::ParameterBytes kept = plan::kept_of(whole, zero, static_cast<double>(h.sharers));
    const auto n = static_cast<double>(h.elements);
    m.weights += n * kept.weights, m.gradients += n * kept.gradients, m.optimizer += n * kept.optimizer;
  }
  if (r.offload.optimizer == optim::StateOffload::file) std::swap(m.optimizer, m.offloaded);
  m.weights += static_cast<double>(held_states(r, layout, rank)) * acc;
  m.activations = activation_bytes(r, layout, rank);
  m.buffers = buffer_bytes(r, layout, rank);
  return m;
}

MemoryEstimate estimate_memory(const Recipe& r, int64_t world) {
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world));
  MemoryEstimate most;
  for (int rank = 0; rank < layout.world(); ++rank) {
    // Data-parallel ranks hold alike, but for a row of elements.
    if (layout.coordinate(Axis::dp, rank) != 0 || layout.coordinate(Axis::cp, rank) != 0) continue;
    const MemoryEstimate m = estimate_memory(r, layout, rank);
    if (m.total() > most.total()) most = m;
  }
  return most;
}

WithinMemory within_memory(const Recipe& recipe, int64_t world, const std::vector<moe::MoeSchedule>& schedules) {
  Recipe r = recipe;
  std::map<std::pair<moe::Restore, int64_t>, double> needs;  // what the estimate depends on
  const auto need = [&](const moe::MoeSchedule& s) {
    const auto [entry, added] = needs.try_emplace({s.restore, s.restore == moe::Restore::keep ? 1 : s.parts});
    if (!added) return entry->second;
    r.schedule.moe.restore = s.restore, r.schedule.moe.cut = s.cut, r.schedule.moe.parts = s.parts;
    return entry->second = estimate_memory(r, world).total();
  };
  const auto of = [&](const auto& wanted) {
    std::vector<moe::MoeSchedule> chosen;
    std::ranges::copy_if(schedules, std::back_inserter(chosen), wanted);
    return chosen;
  };
  const auto keeps = [](const moe::MoeSchedule& s) { return s.restore == moe::Restore::keep; };
  const auto limit = recipe.memory.limit_bytes == 0 ? std::numeric_limits<double>::infinity()
                                                    : static_cast<double>(recipe.memory.limit_bytes);
  WithinMemory out{.least = std::numeric_limits<double>::infinity()};
  for (const moe::MoeSchedule& s : schedules) out.least = std::min(out.least, need(s));
  r.schedule.moe.restore = moe::Restore::keep;
  out.kept = estimate_memory(r, world).total();
  out.schedules = of([&](const auto& s) { return keeps(s) && need(s) <= limit; });
  if (out.schedules.empty()) out.schedules = of([&](const auto& s) { return need(s) <= std::max(limit, out.least); });
  return out;
}

}  // namespace hexad::app
