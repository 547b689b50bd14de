#include "tools/plan/held_parameters.h"

#include "tools/train/stages.h"

namespace hexad::plan {

using namespace train;

using base::Axis;
using layers::ModelConfig;

namespace {

// Mirrors the constructors of the layers.
class Count {
 public:
  Count(const Recipe& recipe, const mesh::Layout& layout, int rank)
      : recipe_(recipe), model_(recipe.model), layout_(layout), rank_(rank) {}

  void embedding(bool other_end) { dense(own(Axis::tp, model_.vocab) * model_.hidden, {.stages = other_end ? 2 : 1}); }
  void position_embedding() { replicated(model_.context * model_.hidden); }
  void norm() {
    replicated(model_.norm == layers::NormKind::layer_norm && model_.bias ? 2 * model_.hidden : model_.hidden);
  }
  void block(int64_t layer) {
    norm(), norm();
    attention();
    if (model_.is_moe(layer)) experts();
    if (!model_.is_moe(layer) || model_.moe.dense_residual) dense_mlp();
  }
  std::vector<HeldParameters> take() { return std::move(held_); }

 private:
  struct Dense {
    int64_t copies = 1;  // along tp, that sum their gradient
    int stages = 1;
    bool accumulator = false;
    bool one_product = false;
  };
  void add(HeldParameters h) {
    if (h.elements > 0) held_.push_back(h);
  }
  void dense(int64_t elements, const Dense& d) {
    add({.elements = elements,
         .sharers = int64_t{layout_.size(Axis::dp)} * layout_.size(Axis::cp) * d.copies * d.stages,
         .two_stages = d.stages > 1,
         .accumulator = d.accumulator,
         .one_product = d.one_product});
  }
  void product(int64_t elements, int64_t copies = 1) { dense(elements, {.copies = copies, .one_product = true}); }
  void partial(int64_t elements, bool accumulator = false) {
    dense(elements, {.copies = layout_.size(Axis::tp), .accumulator = accumulator});
  }
  void replicated(int64_t elements) {
    if (recipe_.parallel.sp)
      partial(elements);
    else
      dense(elements, {});
  }
  // Of n, cut along an axis.
  int64_t own(Axis axis, int64_t n) const {
    const base::Shard s{axis, 0, layout_.size(axis), layout_.coordinate(axis, rank_)};
    return s.end(n) - s.begin(n);
  }
  int64_t bias() const { return model_.bias ? 1 : 0; }

  void attention() {
    const int64_t hidden = model_.hidden, tp = layout_.size(Axis::tp);
    const int64_t query = own(Axis::tp, model_.heads * model_.size_of_head());
    product(query * hidden), dense(query * bias(), {});
    const int64_t groups = model_.key_value_heads(), parts = std::min(groups, tp);
    const base::Shard s{Axis::tp, 0, static_cast<int>(parts),
                        static_cast<int>(layout_.coordinate(Axis::tp, rank_) * parts / tp)};
    const int64_t n = groups * model_.size_of_head(), key = s.end(n) - s.begin(n);
    for (int i = 0; i < 2; ++i)  // keys, values
      product(key * hidden, tp / parts), dense(key * bias(), {.copies = tp / parts});
    product(query * hidden), replicated(bias() * hidden);
    for (int i = 0; i < 2 && model_.qk_norm; ++i) partial(model_.size_of_head());
  }
  void mlp(int64_t width, bool gated) {
    const int64_t mine = own(Axis::tp, width), first = mine * (gated ? 2 : 1);
    product(first * model_.hidden), dense(first * bias(), {});
    product(mine * model_.hidden), replicated(bias() * model_.hidden);
  }
  void dense_mlp() {
    if (model_.mlp == "swiglu" || model_.mlp == "gelu") mlp(model_.dense_hidden(), model_.mlp == "swiglu");
  }
  void experts() {
    const auto& moe = model_.moe;
    const bool gated = moe.expert == moe::ExpertKind::swiglu;
    partial(moe.experts * model_.hidden, true);
    const int64_t count = own(Axis::ep, moe.experts), width = own(Axis::etp, moe.expert_hidden);
    const int64_t copies = layout_.size(Axis::edp);
    const bool at_once = !recipe_.schedule.moe.open() && recipe_.schedule.moe.settled().chunks == 1;
    const auto of_expert = [&](int64_t elements, int64_t sharers, bool one_product) {
      add({.elements = elements, .sharers = sharers, .expert = true, .one_product = one_product});
    };
    const int64_t first = count * width * (gated ? 2 : 1);
    of_expert(first * model_.hidden, copies, at_once), of_expert(first * bias(), copies, false);
    of_expert(count * width * model_.hidden, copies, at_once);
    of_expert(bias() * count * model_.hidden, copies * layout_.size(Axis::etp), false);
    if (moe.shared_experts > 0) mlp(moe.shared_experts * moe.shared_hidden.value_or(moe.expert_hidden), gated);
  }

  const Recipe& recipe_;
  const ModelConfig& model_;
  const mesh::Layout& layout_;
  const int rank_;
  std::vector<HeldParameters> held_;
};

}  // namespace

std::vector<HeldParameters> held_parameters(const Recipe& r, const mesh::Layout& layout, int rank) {
  const pp::StageSplit split = stage_split(r);
  const int stage = layout.coordinate(Axis::pp, rank), chunks = split.stages().chunks;
  Count count(r, layout, rank);
  const bool tied = r.model.tied_embedding;
  bool first = false, last = false;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    first |= split.has_embedding(stage, chunk);
    last |= split.has_head(stage, chunk);
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (split.has_embedding(stage, chunk)) {
      count.embedding(tied && !last);
      if (r.model.position == layers::PositionKind::learned) count.position_embedding();
    }
    const auto layers = split.layers(stage, chunk);
    for (int64_t l = layers.begin; l < layers.end; ++l) count.block(l);
    if (!split.has_head(stage, chunk)) continue;
    count.norm();
    if (!(tied && first)) count.embedding(tied);
  }
  return count.take();
}

int64_t held_states(const Recipe& r, const mesh::Layout& layout, int rank) {
  const layers::ModelConfig& m = r.model;
  int64_t elements = m.position == layers::PositionKind::rotary ? m.context * (m.size_of_head() / 2) * 2 : 0;
  const pp::StageSplit split = stage_split(r);
  const int stage = layout.coordinate(Axis::pp, rank);
  const bool previous_counts = m.moe.aux_loss.coefficient > 0 && m.moe.aux_loss.scope == moe::AuxScope::global_batch;
  for (int chunk = 0; chunk < split.stages().chunks; ++chunk)
    for (int64_t l = split.layers(stage, chunk).begin; l < split.layers(stage, chunk).end; ++l)
      if (m.is_moe(l)) elements += m.moe.experts * ((m.moe.bias_rate > 0 ? 1 : 0) + (previous_counts ? 1 : 0));
  return elements;
}

}  // namespace hexad::plan
