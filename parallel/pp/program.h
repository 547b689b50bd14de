// Builder of the action list of one rank, and functions that make the lists for each kind of schedule.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// List of actions. Every function without a result appends to the list. Micro-batches of a virtual stage are in order,
/// so the virtual stage determines the micro-batch of the next action.
class Program {
 public:
  void forward(int local_stage = 0) { actions_.push_back({Kind::forward, local_stage, forwards_[local_stage]++}); }
  void backward(int local_stage = 0) { actions_.push_back({Kind::backward, local_stage, backwards_[local_stage]++}); }
  void merged(int forward_stage, int backward_stage) {
    forward(forward_stage);
    actions_.back().merged = true;
    backward(backward_stage);
  }
  /// Appends a backward of the input only. A later action computes the weight gradients.
  void backward_input(int local_stage = 0) {
    actions_.push_back({Kind::backward_input, local_stage, backwards_[local_stage]++});
    left_.push_back(actions_.back());
  }
  /// The next two functions append the computation of the oldest delayed weight gradients: of any virtual stage, or of
  /// `local_stage`.
  void weights();
  void weights(int local_stage);
  int weights_left() const { return static_cast<int>(left_.size()); }

  /// Returns the list without the actions of micro-batches `micro_batches` and later. The result is also a legal list.
  std::vector<Action> without_micro_batches_from(int micro_batches) const;

 private:
  using Kind = Action::Kind;
  void weights(std::deque<Action>::iterator which);

  std::vector<Action> actions_;
  std::map<int, int> forwards_, backwards_;  // next micro-batch, keyed by local stage
  std::deque<Action> left_;
};

template <class F>
void repeat(int times, F&& f) {
  for (int i = 0; i < times; ++i) f();
}

/// Position of a rank in the pipeline, and the sizes of the schedule. They determine the rank's list of actions.
struct Position {
  int rank, ranks, stages_a_rank, micro_batches;
  int after() const { return ranks - 1 - rank; }  // number of ranks after this rank
};

std::vector<Action> gpipe(const Position& at);
std::vector<Action> one_f_one_b(const Position& at);
std::vector<Action> one_f_one_b_in_pairs(const Position& at);
std::vector<Action> interleaved(const Position& at);
std::vector<Action> zb_h1(const Position& at);
std::vector<Action> zb_v(const Position& at);
std::vector<Action> dualpipe_v(const Position& at);

}  // namespace hexad::pp
