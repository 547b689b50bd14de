#include "tools/plan/layer_sketch.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "framework/kernels/kernel_table.h"

namespace hexad::plan {

using namespace train;

using base::Axis;
using layers::Recompute;

LayerSketch::LayerSketch(const Recipe& r, const mesh::Layout& layout, RoutingLoad load)
    : recipe_(r),
      model_(r.model),
      tp_(layout.size(Axis::tp)),
      etp_(layout.size(Axis::etp)),
      ep_(layout.size(Axis::ep)),
      width_(static_cast<double>(base::size_of(dtype_of(r.train.precision)))),
      acc_(static_cast<double>(base::size_of(base::accumulator_dtype(dtype_of(r.train.precision))))),
      hidden_(static_cast<double>(r.model.hidden)),
      all_rows_(static_cast<double>(r.batch.micro * r.model.context) / layout.size(Axis::cp)),
      rows_(r.parallel.sp ? all_rows_ / tp_ : all_rows_),
      load_(load) {}

// autograd::checkpoint: everything inside is forgotten, and made again in backward on a tape of its own.
Place LayerSketch::checkpoint(MemoryTape& t, const Place& x, const Segment& segment) const {
  if (!t.recording()) return segment(t, x);
  MemoryTape first(t.account(), t.options(), MemoryTape::Mode::forget);
  const Room out = segment(first, {x.data, -1}).data;
  return t.record({out}, {x}, {x.data}, WeightWork::deferred, [segment](BackwardSketch& b) {
    const auto second =
        std::make_shared<MemoryTape>(b.tape().account(), b.tape().options(), MemoryTape::Mode::recompute);
    const Place leaf = b.wants(0) ? second->leaf(b.saved()[0]) : Place{b.saved()[0], -1};
    const Place result = segment(*second, leaf);
    const auto replay =
        std::make_shared<MemoryReplay>(*second, std::vector{result}, std::vector{b.output_gradient(0)}, true);
    if (b.wants(0)) replay->seed(leaf, b.take_gradient(0));
    for (size_t before = 0; replay->step(); before = replay->weights_left())
      for (size_t added = replay->weights_left() - before; added > 0; --added)
        b.defer([second, replay] { replay->step_weights(); });
    if (b.wants(0)) b.accumulate(0, replay->take_gradient(leaf));
  })[0];
}

Place LayerSketch::norm(MemoryTape& t, const Place& x, double rows, double size) const {
  const bool rms = model_.norm == layers::NormKind::rms_norm || size != hidden_;  // heads have RMSNorm always
  const double bytes = rows * size * width_;
  const Room out = t.room(bytes), statistics = t.room(rows * acc_ * (rms ? 1 : 2));
  const Place y =
      t.record({out}, {x}, {x.data, statistics}, WeightWork::task, [bytes, rms, sums = size * acc_](BackwardSketch& b) {
        if (rms) b.hold(b.room(sums));
        if (rms)
          b.accumulate(0, bytes);
        else
          b.accumulate(0, b.room(bytes));
      })[0];
  t.make_again(y);
  return y;
}

Place LayerSketch::add(MemoryTape& t, const Place& a, const Place& b) const {
  return t.record({t.room(boundary_bytes())}, {a, b}, {}, WeightWork::none, [](BackwardSketch& back) {
    back.accumulate(0, back.output_gradient(0)), back.accumulate(1, back.output_gradient(0));
  })[0];
}

// tp::column_linear: all rows of x times weights whose outputs are cut.
std::vector<Place> LayerSketch::column(MemoryTape& t, const Place& x, std::span<const double> outputs) const {
  std::vector<Place> ys;
  if (tp_ == 1) {
    for (const double n : outputs)
      ys.push_back(t.record({t.room(rows_ * n * width_)}, {x}, {x.data}, WeightWork::task,
                            [bytes = boundary_bytes()](BackwardSketch& b) { b.accumulate(0, bytes); })[0]);
    return ys;
  }
  std::vector<Room> outs;
  for (const double n : outputs) outs.push_back(t.room(all_rows_ * n * width_));
  const double all = all_rows_ * hidden_ * width_;
  const bool gathers = recipe_.parallel.sp, several = outputs.size() > 1;
  if (gathers) t.room(all);
  return t.record(outs, {x}, {x.data}, WeightWork::task, [=, own = boundary_bytes()](BackwardSketch& b) {
    if (gathers) b.hold(b.room(all));
    const Room sum = b.room(gathers ? 2 * own : all), product = several ? b.room(gathers ? own : all) : Room{};
    b.accumulate(0, b.room(own));
  });
}

// tp::row_linear: the ranks' products of their inputs are added up.
Place LayerSketch::row(MemoryTape& t, const Place& x, double inputs) const {
  const bool shares = tp_ > 1, gathers = shares && recipe_.parallel.sp;
  const double all = all_rows_ * hidden_ * width_, dx = (shares ? all_rows_ : rows_) * inputs * width_;
  if (gathers) t.room(all);
  return t.record({t.room(boundary_bytes())}, {x}, {x.data}, WeightWork::task, [=](BackwardSketch& b) {
    if (gathers) b.hold(b.room(all));
    b.accumulate(0, dx);
  })[0];
}

Place LayerSketch::attention(MemoryTape& t, const Place& x) const {
  const auto size = static_cast<double>(model_.size_of_head());
  const double heads = static_cast<double>(model_.heads) / tp_,
               key_heads = std::max(static_cast<double>(model_.key_value_heads()) / tp_, 1.0);
  const std::array<double, 3> outputs{heads * size, key_heads * size, key_heads * size};
  std::vector<Place> qkv = column(t, x, outputs);
  const auto of_heads = [&](double n) { return all_rows_ * n * size * width_; };
  if (model_.qkv_clip)
    for (Place& p : qkv)
      p = t.record({t.room(of_heads(&p == &qkv[0] ? heads : key_heads))}, {p}, {p.data}, WeightWork::none,
                   [bytes = of_heads(&p == &qkv[0] ? heads : key_heads)](BackwardSketch& b) {
                     b.accumulate(0, b.room(bytes));
                   })[0];
  for (Place& p : qkv)  // a look at the same memory
    p = t.record({p.data}, {p}, {}, WeightWork::none,
                 [](BackwardSketch& b) { b.accumulate(0, b.output_gradient(0)); })[0];
  if (model_.qk_norm) {
    qkv[0] = norm(t, qkv[0], all_rows_ * heads, size);
    qkv[1] = norm(t, qkv[1], all_rows_ * key_heads, size);
  }
  if (model_.position == layers::PositionKind::rotary)
    for (const size_t i : {0, 1})
      qkv[i] = t.record(
          {t.room(of_heads(i == 0 ? heads : key_heads))}, {qkv[i]}, {}, WeightWork::none,
          [bytes = of_heads(i == 0 ? heads : key_heads)](BackwardSketch& b) { b.accumulate(0, b.room(bytes)); })[0];
  const Room out = t.room(of_heads(heads)), sums = t.room(all_rows_ * heads * acc_);
  const Place y = t.record({out}, qkv, {qkv[0].data, qkv[1].data, qkv[2].data, out, sums}, WeightWork::none,
                           [q = of_heads(heads), k = of_heads(key_heads)](BackwardSketch& b) {
                             const Room dq = b.room(q), dk = b.room(k), dv = b.room(k);
                             b.accumulate(0, dq), b.accumulate(1, dk), b.accumulate(2, dv);
                           })[0];
  const Place flat = t.record({y.data}, {y}, {}, WeightWork::none,
                              [](BackwardSketch& b) { b.accumulate(0, b.output_gradient(0)); })[0];
  return row(t, flat, heads * size);
}

Place LayerSketch::mlp(MemoryTape& t, const Place& x, double size, bool gated) const {
  const double mine = size / tp_, bytes = all_rows_ * mine * width_;
  const std::array<double, 1> outputs{(gated ? 2 : 1) * mine};
  const Place up = column(t, x, outputs)[0];
  const Place product =
      t.record({t.room(bytes)}, {up}, {up.data}, WeightWork::none,
               [before = outputs[0] / mine * bytes](BackwardSketch& b) { b.accumulate(0, b.room(before)); })[0];
  return row(t, product, mine);
}

Place LayerSketch::run(MemoryTape& t, const Place& x, int64_t layer, bool recompute_attention) const {
  const Segment attend = [this](MemoryTape& tape, const Place& in) {
    return attention(tape, norm(tape, in, rows_, hidden_));
  };
  const Place attended = recompute_attention ? checkpoint(t, x, attend) : attend(t, x);
  const Place middle = add(t, x, attended), normed = norm(t, middle, rows_, hidden_);
  const auto dense = [&] { return mlp(t, normed, static_cast<double>(model_.dense_hidden()), model_.mlp == "swiglu"); };
  if (!model_.is_moe(layer)) return add(t, middle, dense());
  const Place y = moe(t, normed);
  const Place out = add(t, middle, y);
  return model_.moe.dense_residual ? add(t, out, dense()) : out;
}

Place LayerSketch::block(MemoryTape& t, const Place& x, int64_t layer) const {
  if (recipe_.recompute != Recompute::block) return run(t, x, layer, recipe_.recompute == Recompute::attention);
  return checkpoint(t, x, [this, layer](MemoryTape& tape, const Place& in) { return run(tape, in, layer, false); });
}

Place LayerSketch::embed(MemoryTape& t) const {
  const auto looked_up = [&] {
    return t.record({t.room(boundary_bytes())}, {}, {}, WeightWork::task, [](BackwardSketch&) {})[0];
  };
  const Place x = looked_up();
  return model_.position == layers::PositionKind::learned ? add(t, x, looked_up()) : x;
}

Place LayerSketch::head(MemoryTape& t, const Place& x) const {
  const bool gathers = recipe_.parallel.sp && tp_ > 1;
  const double all = all_rows_ * hidden_ * width_;
  Place y = norm(t, x, rows_, hidden_);
  if (gathers)
    y = t.record({t.room(all)}, {y}, {}, WeightWork::none,
                 [own = boundary_bytes()](BackwardSketch& b) { b.accumulate(0, b.room(own)); })[0];
  const Room losses = t.room(all_rows_ * acc_), dx = t.room(all);
  {
    const auto rows = static_cast<int64_t>(all_rows_);
    const int64_t vocabulary = model_.vocab / static_cast<int64_t>(tp_);
    const double chunk = static_cast<double>(
        std::min(rows, kernels::cpu_table.cross_entropy.chunk_rows(std::max<int64_t>(rows, 1), vocabulary)));
    const double elements = chunk * static_cast<double>(vocabulary);
    // With the vocabulary cut over ranks the next chunk's are computed while statistics of one are on their way.
    const Room logits = t.room(elements * acc_ * (tp_ > 1 && chunk < static_cast<double>(rows) ? 2 : 1));
    const Room gradients = acc_ == width_ ? Room{} : t.room(elements * width_);
  }
  return t.record({t.room(acc_)}, {y}, {dx}, WeightWork::deferred,
                  [](BackwardSketch& b) { b.accumulate(0, b.saved()[0]); })[0];
}

}  // namespace hexad::plan
