#include "tools/plan/memory_tape.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"
#include "framework/device/block_size.h"

namespace hexad::plan {

PassBytes operator+(const PassBytes& a, const PassBytes& b) {
  return {a.activations + b.activations, a.total + b.total, a.blocks + b.blocks};
}
PassBytes operator-(const PassBytes& a, const PassBytes& b) {
  return {a.activations - b.activations, a.total - b.total, a.blocks - b.blocks};
}
PassBytes most_of(const PassBytes& a, const PassBytes& b) {
  return {std::max(a.activations, b.activations), std::max(a.total, b.total), std::max(a.blocks, b.blocks)};
}

void MemoryAccount::add(double bytes, bool kept, int sign) {
  if (bytes == 0) return;
  now_.total += sign * bytes;
  now_.blocks += sign * static_cast<double>(device::block_size(static_cast<int64_t>(bytes)));
  if (kept) now_.activations += sign * bytes;
  peak_ = most_of(peak_, now_);
}

void MemoryAccount::hand_over() {
  done_.push_back({peak_ - begin_, now_ - begin_});
  begin_ = peak_ = now_;
}

std::vector<Stretch> MemoryAccount::take() {
  hand_over();
  return std::exchange(done_, {});
}

class RoomOf {
 public:
  RoomOf(MemoryAccount& account, double bytes) : account_(account), bytes_(bytes) { account_.add(bytes, false, 1); }
  ~RoomOf() { account_.add(bytes_, kept_, -1); }
  RoomOf(const RoomOf&) = delete;
  RoomOf& operator=(const RoomOf&) = delete;

  double bytes() const { return bytes_; }
  void keep() {
    if (std::exchange(kept_, true)) return;
    account_.add(bytes_, false, -1), account_.add(bytes_, true, 1);
  }

 private:
  MemoryAccount& account_;
  const double bytes_;
  bool kept_ = false;
};

// One saved tensor: in memory, made again by the first who asks until its maker's backward is over, or elsewhere until
// then.
struct MemoryTape::Slot {
  Room kept{};
  double fetched = 0;
  std::vector<std::shared_ptr<Slot>> from{};
  Room again{};
  bool cached = false;

  Room get(const MemoryTape& tape) {
    if (kept || fetched == 0) return kept;
    if (!cached) return tape.room(fetched);
    if (!again) again = tape.room(fetched);
    return again;
  }
};

struct MemoryTape::Node {
  std::vector<int> inputs;
  int first_output, outputs;
  std::vector<std::shared_ptr<Slot>> saved;
  WeightWork weights;
  PullbackSketch pullback;
  std::shared_ptr<Slot> again;
};

MemoryTape::MemoryTape(MemoryAccount& account, const Options& options, Mode mode)
    : account_(account), options_(options), mode_(mode) {}
MemoryTape::~MemoryTape() = default;

Room MemoryTape::room(double bytes) const { return std::make_shared<RoomOf>(account_, bytes); }

std::vector<Place> MemoryTape::record(std::vector<Room> outs, const std::vector<Place>& inputs,
                                      const std::vector<Room>& saved, WeightWork weights, PullbackSketch pullback) {
  std::vector<Place> places;
  for (Room& out : outs) places.push_back({std::move(out), -1});
  bool wanted = weights != WeightWork::none;
  for (const Place& p : inputs) wanted |= p.id >= 0;
  if (!recording() || !wanted) return places;

  Node node{{}, values_, static_cast<int>(places.size()), {}, weights, std::move(pullback), {}};
  for (const Place& p : inputs) node.inputs.push_back(p.id);
  for (const Room& r : saved) {
    if (!r) continue;
    const auto known = std::find_if(again_.begin(), again_.end(), [&](const auto& a) { return a.first.lock() == r; });
    if (known != again_.end() && known->second.lock()) {
      node.saved.push_back(known->second.lock());
      continue;
    }
    auto slot = std::make_shared<Slot>();
    if (options_.offload && r->bytes() >= options_.offload_from)
      slot->fetched = r->bytes();
    else
      r->keep(), slot->kept = r;
    node.saved.push_back(std::move(slot));
  }
  nodes_.push_back(std::move(node));
  for (Place& p : places) p.id = values_++;
  return places;
}

void MemoryTape::make_again(const Place& out) {
  if (!options_.recompute_norms || out.id < 0) return;
  Node& node = nodes_.back();
  node.again = std::make_shared<Slot>();
  node.again->fetched = out.data->bytes();
  node.again->from = node.saved;
  node.again->cached = true;
  again_.emplace_back(out.data, node.again);
}

MemoryReplay::MemoryReplay(MemoryTape& tape, const std::vector<Place>& roots, const std::vector<Room>& gradients,
                           bool weights_delayed)
    : tape_(tape), delayed_(weights_delayed), gradients_(static_cast<size_t>(tape.values_)) {
  for (size_t i = 0; i < roots.size(); ++i) accumulate(roots[i].id, gradients[i]);
}
MemoryReplay::~MemoryReplay() = default;

void MemoryReplay::accumulate(int id, Room gradient) {
  Room& sum = gradients_[static_cast<size_t>(id)];
  if (!sum)
    sum = std::move(gradient);
  else if (sum.use_count() > 1)
    sum = tape_.room(sum->bytes());
}

void MemoryReplay::seed(const Place& leaf, Room gradient) {
  if (gradient) accumulate(leaf.id, std::move(gradient));
}

Room MemoryReplay::take_gradient(const Place& leaf) {
  return std::exchange(gradients_[static_cast<size_t>(leaf.id)], {});
}

bool MemoryReplay::step() {
  if (tape_.nodes_.empty()) return false;
  MemoryTape::Node node = std::move(tape_.nodes_.back());
  tape_.nodes_.pop_back();
  std::vector<Room> douts, held;
  bool any = false;
  for (int o = 0; o < node.outputs; ++o) {
    douts.push_back(std::move(gradients_[static_cast<size_t>(node.first_output + o)]));
    any |= douts.back() != nullptr;
  }
  if (!any) return true;
  {
    std::vector<Room> saved;  // as pullbacks and weight tasks read them
    for (const auto& slot : node.saved) saved.push_back(slot->get(tape_));
    BackwardSketch b(*this, node.inputs, douts, saved, held);
    if (node.pullback) node.pullback(b);
  }
  if (node.again) node.again->again = {};
  if (delayed_ && node.weights == WeightWork::task)
    weights_.push_back([this, saved = std::move(node.saved), douts = std::move(douts), held = std::move(held)] {
      for (const auto& slot : saved) slot->get(tape_);
    });
  return true;
}

bool MemoryReplay::step_weights() {
  if (weights_.empty()) return false;
  const std::function<void()> task = std::move(weights_.front());
  weights_.erase(weights_.begin());
  task();
  return true;
}

void MemoryReplay::run() {
  while (step()) {
  }
  while (step_weights()) {
  }
}

void BackwardSketch::accumulate(size_t input, Room gradient) {
  if (wants(input)) replay_.accumulate(inputs_[input], std::move(gradient));
}

void BackwardSketch::accumulate(size_t input, double bytes) {
  if (!wants(input)) return;
  Room& sum = replay_.gradients_[static_cast<size_t>(inputs_[input])];
  if (!sum || sum.use_count() > 1) sum = room(bytes);
}

Room BackwardSketch::take_gradient(size_t input) {
  return wants(input) ? std::exchange(replay_.gradients_[static_cast<size_t>(inputs_[input])], {}) : Room{};
}

void BackwardSketch::defer(std::function<void()> work) {
  if (weights_delayed())
    replay_.weights_.push_back(std::move(work));
  else
    work();
}

}  // namespace hexad::plan
