#include "layers/moe/experts.h"

namespace hexad::moe {

Experts::Experts(const Config& c, const Builder& b) : config_(c) {
  const Shape in{c.experts, c.expert_hidden, c.hidden}, out{c.experts, c.hidden, c.expert_hidden};
  if (c.kind == ExpertKind::swiglu) gate_ = make(c, b / "gate", in, 1, c.init_std);
  up_ = make(c, b / "up", in, 1, c.init_std);
  down_ = make(c, b / "down", out, 2, c.output_init_std);
}

Experts::Product Experts::make(const Config& c, const Builder& b, Shape shape, int width_dim, double std) {
  const auto along = [&](Axis axis, int dim) {
    return Shard{axis, dim, b.mesh().size(axis), b.mesh().coordinate(axis)};
  };
  const Shard experts = along(Axis::ep, 0), width = along(Axis::etp, width_dim);
  Product p;
  p.weight = &b.parameter("weight", shape,
                          {.init = {Init::Kind::normal, std},
                           .placement = Placement{.view = MeshView::expert, .shards = {experts, width}}});
  parameters_.push_back(p.weight);
  if (!c.bias) return p;
  // A bias of the outputs belongs to the sum over etp ranks: the first one adds it.
  const bool of_width = width_dim == 1;
  Placement placement{.view = MeshView::expert, .shards = {experts}};
  if (of_width)
    placement.shards.push_back(width);
  else
    placement.partial = {Axis::etp};
  if (!of_width && b.mesh().coordinate(Axis::etp) > 0) p.role = BiasRole::held;
  p.bias = &b.parameter("bias", {shape[0], shape[1]},
                        {.init = {Init::Kind::constant, 0}, .decay = false, .placement = placement});
  parameters_.push_back(p.bias);
  return p;
}

Value Experts::operator()(Tape& t, const Value& rows, const std::vector<int64_t>& offsets) const {
  const Value up = up_(t, rows, offsets);
  const Value middle =
      config_.kind == ExpertKind::swiglu ? swiglu(t, gate_(t, rows, offsets), up) : gelu(t, up, config_.gelu);
  return down_(t, middle, offsets);
}

}  // namespace hexad::moe
