#include "layers/moe/experts.h"

namespace hexad::moe {

Experts::Experts(const Config& c, const Builder& b) : config_(c) {
  if (c.kind == ExpertKind::swiglu) gate_ = make(c, b / "gate", c.expert_hidden, c.hidden, c.init_std);
  up_ = make(c, b / "up", c.expert_hidden, c.hidden, c.init_std);
  down_ = make(c, b / "down", c.hidden, c.expert_hidden, c.output_init_std);
}

Experts::Product Experts::make(const Config& c, const Builder& b, int64_t outputs, int64_t inputs, double std) {
  const int parts = b.mesh().size(Axis::ep), index = b.mesh().coordinate(Axis::ep);
  const Placement placement{MeshView::expert, {{Axis::ep, 0, parts, index}}};
  Product p;
  p.weight =
      &b.parameter("weight", {c.experts, outputs, inputs}, {.init = {Init::Kind::normal, std}, .placement = placement});
  parameters_.push_back(p.weight);
  if (c.bias) {
    p.bias = &b.parameter("bias", {c.experts, outputs},
                          {.init = {Init::Kind::constant, 0}, .decay = false, .placement = placement});
    parameters_.push_back(p.bias);
  }
  return p;
}

Value Experts::operator()(Tape& t, const Value& rows, const std::vector<int64_t>& offsets) const {
  const Value up = up_(t, rows, offsets);
  const Value middle =
      config_.kind == ExpertKind::swiglu ? swiglu(t, gate_(t, rows, offsets), up) : gelu(t, up, config_.gelu);
  return down_(t, middle, offsets);
}

}  // namespace hexad::moe
