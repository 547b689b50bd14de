// The MoE layer as what it allocates: mirrors layers/moe.
#include <algorithm>
#include <cmath>
#include <utility>

#include "layers/moe/schedule/memory_limit.h"
#include "tools/plan/layer_sketch.h"

namespace hexad::plan {

using namespace train;

using moe::ReuseStrategy;

// A pass of the MoE layer (layers/moe/pass), forward or backward, in chunks of equal size.
struct LayerSketch::MoePass {
  moe::MoeSchedule schedule;
  int64_t chunks = 1;
  bool alone, placed;         // nobody is sent anything; rows are put in order where they are computed
  double slots, sent, there;  // of a chunk: rows that return, are sent, and are computed
  double tokens, top_k;
  double row, middle, product;  // bytes of a row, and of what the experts have inside before and after the activation
  double acc;                   // bytes of a row weight
  bool gated;
  double index_bytes;  // of the plan

  double of_expert;  // rows of a chunk that one expert computes, evenly
  // Where a chunk leaves nothing behind, those after the second are as that one.
  int64_t different_chunks() const { return std::min<int64_t>(chunks, 3); }
  // P and S: on their way to the experts' rank, with `row_weights` bytes beside each row.
  Room send(const MemoryTape& t, double row_weights) const {
    Room rows = t.room(sent * (row + row_weights));
    if (!alone) rows = t.room(there * (row + row_weights));
    return rows;
  }
  // D: as the experts read them, in order and unpacked.
  Room place(const MemoryTape& t, Room rows, double row_weights) const {
    if (!placed && row_weights == 0) return rows;
    const Room unpacked_weights = t.room(there * row_weights);
    rows = t.room(there * row);
    return rows;
  }
  // What a chunk may have on its way, `kinds` of rows, while another one is computed by lanes of their own threads.
  double on_its_way(int kinds) const { return kinds * (row + acc) * (sent + there + (alone ? 0 : there)); }
  // U, R and L: what the experts made, as it returns to its tokens' rank.
  Room combine(const MemoryTape& t, Room rows, double row_weights) const {
    if (placed || row_weights > 0) rows = t.room(there * (row + row_weights));
    if (!alone) rows = t.room(slots * (row + row_weights));
    if (row_weights > 0) {
      const Room unpacked_weights = t.room(slots * row_weights);
      rows = t.room(slots * row);
    }
    return rows;
  }
};

// How many times its even share of rows a rank may have to compute.
double LayerSketch::most_rows() const {
  const moe::MoeConfig& m = model_.moe;
  if (m.routing == moe::Routing::balanced) return 1;
  const double local = static_cast<double>(m.experts) / ep_;
  const double most = ep_ * std::min(1.0, local / static_cast<double>(m.top_k));
  return m.capacity_factor ? std::min(most, std::max(1.0, *m.capacity_factor)) : most;
}

LayerSketch::MoePass LayerSketch::describe(bool restoring) const {
  const moe::MoeConfig& m = model_.moe;
  MoePass p{};
  p.schedule = recipe_.schedule.moe.settled();
  p.tokens = rows_ < all_rows_ ? rows_ : all_rows_ / tp_;
  p.top_k = static_cast<double>(m.top_k);
  p.gated = m.expert == moe::ExpertKind::swiglu;
  p.row = hidden_ * width_;
  p.product = static_cast<double>(m.expert_hidden) / etp_ * width_;
  p.middle = p.product * (p.gated ? 2 : 1);
  p.acc = acc_;
  p.alone = ep_ * etp_ == 1;
  const double local = static_cast<double>(m.experts) / ep_;
  p.placed = !p.alone && local > 1;
  const bool direct = p.schedule.esp_exchange_used() == ep::EspExchange::direct;
  const double busiest = load_ == RoutingLoad::even ? 1 : most_rows();
  const double slots = p.tokens * p.top_k, sent = slots * (direct ? etp_ : 1), there = slots * etp_ * busiest;
  p.chunks = p.schedule.is_cut() ? p.schedule.chunks : 1;
  p.index_bytes = 8 * (3 * slots + (p.placed ? there : 0));
  const auto each = [&](double n) { return std::ceil(n / static_cast<double>(p.chunks)); };
  if (restoring && p.schedule.memory_limit) {
    const int64_t limit = *p.schedule.memory_limit, most = std::max<int64_t>(1, std::llround(p.tokens));
    const moe::ExpertShape shape{model_.hidden, std::llround(p.product / width_), p.gated};
    const auto bytes = [&] {
      return moe::buffer_bytes(std::llround(each(sent)), std::llround(each(there)), shape, p.schedule.memory_reuse,
                               dtype_of(recipe_.train.precision));
    };
    // As the pass itself does.
    for (int64_t b = bytes(); b > limit && p.chunks < most; b = bytes())
      p.chunks = std::min(most, moe::more_chunks(p.chunks, b, limit));
  }
  p.slots = each(slots), p.sent = each(sent), p.there = each(there);
  p.of_expert = load_ == RoutingLoad::even ? std::ceil(p.there / local) : p.there;
  return p;
}

Place LayerSketch::moe(MemoryTape& t, const Place& input) const {
  const moe::MoeConfig& m = model_.moe;
  const bool takes = rows_ == all_rows_ && tp_ > 1;
  const double rows = takes ? rows_ / tp_ : rows_, whole = boundary_bytes(), part = rows * hidden_ * width_;
  const double scores = rows * static_cast<double>(m.experts) * acc_;
  Place x = input;
  if (takes)
    x = t.record({t.room(part)}, {input}, {}, WeightWork::none,
                 [whole](BackwardSketch& b) { b.accumulate(0, b.room(whole)); })[0];
  const Place logits = t.record({t.room(scores)}, {x}, {x.data}, WeightWork::task,
                                [part](BackwardSketch& b) { b.accumulate(0, part); })[0];
  const double choices = rows * static_cast<double>(m.top_k);
  const Room chances = t.room(scores), ids = t.room(4 * choices), of_slots = t.room(acc_ * choices);
  const std::vector<Place> choice = t.record({chances, of_slots}, {logits}, {chances, ids}, WeightWork::none,
                                             [scores](BackwardSketch& b) { b.accumulate(0, b.room(scores)); });
  const Room masked = t.room(4 * choices);
  std::vector<Place> losses;
  if (m.aux_loss.coefficient > 0)
    losses.push_back(t.record({t.room(acc_)}, {choice[0]}, {choice[0].data}, WeightWork::none,
                              [scores](BackwardSketch& b) { b.accumulate(0, b.room(scores)); })[0]);
  if (m.z_loss > 0)
    losses.push_back(t.record({t.room(acc_)}, {logits}, {logits.data, t.room(rows * acc_)}, WeightWork::none,
                              [scores](BackwardSketch& b) { b.accumulate(0, b.room(scores)); })[0]);
  Place y = moe_pass(t, x, choice[1]);
  // Their gradients come from outside, a number each.
  for (const Place& loss : losses)
    y = t.record({y.data}, {y, loss}, {}, WeightWork::none,
                 [](BackwardSketch& b) { b.accumulate(0, b.output_gradient(0)), b.accumulate(1, b.room(8)); })[0];
  if (takes)
    y = t.record({t.room(whole)}, {y}, {}, WeightWork::none,
                 [part](BackwardSketch& b) { b.accumulate(0, b.room(part)); })[0];
  if (m.shared_experts == 0) return y;
  const Place shared = mlp(t, input, static_cast<double>(m.shared_experts * m.shared_hidden.value_or(m.expert_hidden)),
                           m.expert == moe::ExpertKind::swiglu);
  return add(t, y, shared);
}

Place LayerSketch::moe_pass(MemoryTape& t, const Place& x, const Place& weights) const {
  const bool restoring =
      t.mode() == MemoryTape::Mode::record && recipe_.schedule.moe.settled().memory_reuse != ReuseStrategy::none;
  const MoePass p = describe(restoring);
  return restoring ? offload_or_recompute(t, x, weights, p) : keep(t, x, weights, p);
}

Place LayerSketch::keep(MemoryTape& t, const Place& x, const Place& weights, const MoePass& p) const {
  const Room plan = t.room(p.index_bytes);
  std::vector<Room> saved;
  const double n = static_cast<double>(p.chunks);
  Room returned = p.chunks > 1 ? t.room(n * p.slots * p.row) : Room{};
  Room next = p.send(t, 0);
  for (int64_t c = 0; c < p.chunks; ++c) {
    Room arrived = std::move(next);
    if (c + 1 < p.chunks) next = p.send(t, 0);
    t.account().hand_over();
    const Room rows = p.place(t, std::move(arrived), 0);
    const Room gate_up = t.room(p.there * p.middle), product = t.room(p.there * p.product);
    Room results = t.room(p.there * p.row);
    for (const Room& r : {rows, gate_up, product})
      if (t.recording() && r) saved.push_back(r);
    const Room back = p.combine(t, std::move(results), 0);
    if (!returned) returned = back;
    t.account().hand_over();
  }
  const Room out = t.room(p.tokens * p.row);
  const size_t of_experts = saved.size();
  saved.push_back(returned);
  saved.push_back(weights.data);
  return t.record({out}, {x, weights}, saved, WeightWork::deferred, [p, plan, of_experts](BackwardSketch& b) {
    const MemoryTape& tape = b.tape();
    std::vector<Room> kept(b.saved().begin(), b.saved().begin() + static_cast<std::ptrdiff_t>(of_experts));
    const Room dweights = tape.room(p.tokens * p.top_k * p.acc);
    const double chunks = static_cast<double>(p.chunks);
    const Room back = p.chunks > 1 ? tape.room(chunks * p.slots * p.row) : Room{},
               dreturned = tape.room(chunks * p.slots * p.row);
    Room last;
    for (int64_t c = 0; c < p.chunks; ++c) {
      Room rows = dreturned;
      if (!p.alone) rows = tape.room(p.there * p.row);
      tape.account().hand_over();
      rows = p.place(tape, std::move(rows), 0);
      Room dproduct = tape.room(p.there * p.product);
      // What weight gradients read.
      std::vector<Room> held{tape.room(p.there * p.middle)};
      dproduct.reset();
      held.push_back(std::move(rows));
      last = p.combine(tape, tape.room(p.there * p.row), 0);
      if (b.weights_delayed()) b.defer([held, kept] {});
      held.clear();
      tape.account().hand_over();
    }
    b.accumulate(0, p.tokens * p.row);
    b.accumulate(1, dweights);
  })[0];
}

Place LayerSketch::offload_or_recompute(MemoryTape& t, const Place& x, const Place& weights, const MoePass& p) const {
  const Room plan = t.room(p.index_bytes + 8 * p.tokens * p.top_k);
  const bool inputs_away = moe::offloads_inputs(p.schedule.memory_reuse),
             middles_away = moe::offloads_middles(p.schedule.memory_reuse);
  const double result = p.tokens * p.row;
  const Room out = t.room(result);
  {
    Room next = p.send(t, 0);
    for (int64_t c = 0; c < p.different_chunks(); ++c) {
      Room rows = p.place(t, std::move(next), 0);
      const bool more = c + 1 < p.different_chunks();
      Room meanwhile = more ? t.room(p.on_its_way(1)) : Room{};
      Room gate_up = t.room(p.there * p.middle), product = t.room(p.there * p.product),
           results = t.room(p.there * p.row);
      product.reset();
      if (!inputs_away) rows.reset();
      if (!middles_away) gate_up.reset();
      p.combine(t, std::move(results), 0);
      meanwhile.reset();
      if (more) next = p.send(t, 0);
    }
  }
  std::vector<Room> saved{weights.data};
  if (!inputs_away) saved.push_back(x.data);
  return t.record({out}, {x, weights}, saved, WeightWork::deferred, [=](BackwardSketch& b) {
    const MemoryTape& tape = b.tape();
    const Room dx = tape.room(result), dweights = tape.room(p.tokens * p.top_k * p.acc),
               row_weights = tape.room(static_cast<double>(p.chunks) * p.sent * p.acc);
    const auto send = [&] {
      Room again = inputs_away ? tape.room(p.there * p.row) : p.send(tape, 0);
      return std::pair{p.send(tape, p.acc), std::move(again)};
    };
    auto next = send();
    for (int64_t c = 0; c < p.different_chunks(); ++c) {
      auto [rows, again] = std::exchange(next, {});
      if (!inputs_away) again = p.place(tape, std::move(again), 0);
      rows = p.place(tape, std::move(rows), p.acc);
      const bool more = c + 1 < p.different_chunks();
      Room meanwhile = more ? tape.room(p.on_its_way(2)) : Room{};
      Room gate_up = tape.room(p.there * p.middle), product = tape.room(p.there * p.product);
      {
        const double block = std::min(p.of_expert, static_cast<double>(moe::ExpertShape::block_rows));
        const Room part = tape.room(block * p.product), own = tape.room(p.there * 8);
      }
      product.reset();
      Room results = tape.room(p.there * p.row);
      for (Room* r : {&rows, &again, &gate_up}) r->reset();
      p.combine(tape, std::move(results), p.acc);
      meanwhile.reset();
      if (more) next = send();
    }
    b.accumulate(0, dx), b.accumulate(1, dweights);
  })[0];
}

}  // namespace hexad::plan
