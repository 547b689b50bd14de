#include "parallel/pp/held_tensors.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "framework/base/error.h"
#include "parallel/pp/dependencies.h"

namespace hexad::pp {
namespace {

// Numbers of micro-batches whose tensors are saved, by local stage.
// - whole: saved for the whole backward
// - weights: saved for delayed weight gradients
struct Saved {
  explicit Saved(int stages_a_rank) : whole(stages_a_rank), weights(stages_a_rank) {}

  void after(const Action& a) {
    const size_t stage = a.local_stage;
    if (a.is_forward()) ++whole[stage];
    if (a.is_backward()) --whole[stage];
    if (a.kind == Action::Kind::backward_input) ++weights[stage];
    if (a.kind == Action::Kind::backward_weight) --weights[stage];
  }

  std::vector<int> whole, weights;
};

// True if each element of `a` is at most the corresponding element of `b`.
bool nowhere_above(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::equal(a, b, std::less_equal{});
}

}  // namespace

HeldTensors::HeldTensors(const CheckedSchedule& program, int rank) {
  base::require(!program.merge, "[pp] held tensors of merged pairs that run as one action are not counted; expected a ",
                "schedule without such pairs");
  const Schedule& schedule = program.schedule;
  const StageMap& stages = schedule.stages;
  const size_t me = rank;
  Saved saved(stages.stages_a_rank);
  int here = 0, sent = 0;  // numbers of inputs that have arrived or are being received, and of sent tensors not freed
  for (size_t i = 0; i < schedule.ranks[me].size(); ++i) {
    const Action& a = schedule.ranks[me][i];
    const Transfers::Before& before = program.transfers.ranks[me][i];
    const auto input = needed(stages, rank, a), result = made(stages, rank, a);
    const Peer from = !input                           ? Peer::none
                      : sender(stages, *input) == rank ? Peer::self
                                                       : Peer::other,
               to = !result                             ? Peer::none
                    : receiver(stages, *result) == rank ? Peer::self
                                                        : Peer::other;
    const Micro micro = a.micro == 0                            ? Micro::first
                        : a.micro + 1 == schedule.micro_batches ? Micro::last
                                                                : Micro::middle;
    here += static_cast<int>(before.receives.size());
    const int freed = static_cast<int>(before.frees.size());
    Counts counts = saved.whole;
    counts.insert(counts.end(), saved.weights.begin(), saved.weights.end());
    counts.insert(counts.end(), {here, sent, sent - freed});
    add({a.kind, a.local_stage, micro, from, to}, std::move(counts));
    saved.after(a);
    sent -= freed;
    if (from != Peer::none) --here;
    if (to == Peer::self) ++here;
    if (to == Peer::other && !program.transfers.at_once) ++sent;
  }
}

void HeldTensors::add(const Similar& action, Counts counts) {
  std::vector<Counts>& most = most_[action];
  if (std::ranges::any_of(most, [&](const Counts& known) { return nowhere_above(counts, known); })) return;
  std::erase_if(most, [&](const Counts& known) { return nowhere_above(known, counts); });
  most.push_back(std::move(counts));
}

bool HeldTensors::cover(const HeldTensors& other) const {
  return std::ranges::all_of(other.most_, [&](const auto& of_other) {
    const auto mine = most_.find(of_other.first);
    return mine != most_.end() && std::ranges::all_of(of_other.second, [&](const Counts& counts) {
             return std::ranges::any_of(mine->second, [&](const Counts& more) { return nowhere_above(counts, more); });
           });
  });
}

}  // namespace hexad::pp
