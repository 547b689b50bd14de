// Helpers to write the list of one rank, and the pipeline schedules, each in its own source file.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Appends actions. The micro-batches of a chunk are in order, so the chunk identifies the micro-batch.
class Program {
 public:
  void forward(int chunk = 0) { actions_.push_back({Kind::forward, chunk, forwards_[chunk]++}); }
  void backward(int chunk = 0) { actions_.push_back({Kind::backward, chunk, backwards_[chunk]++}); }
  void merged(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    actions_.back().merged = true;
    backward(backward_chunk);
  }
  /// Appends a backward without weight gradients, which a later action computes.
  void backward_input(int chunk = 0) {
    actions_.push_back({Kind::backward_input, chunk, backwards_[chunk]++});
    left_.push_back(actions_.back());
  }
  /// Append the oldest pending weight gradients, of all chunks or of `chunk`.
  void weights();
  void weights(int chunk);
  int weights_left() const { return static_cast<int>(left_.size()); }

  /// Returns the list without the micro-batches from `micro_batches` on. The result is a legal schedule, too.
  std::vector<Action> without_micro_batches_from(int micro_batches) const;

 private:
  using Kind = Action::Kind;
  void weights(std::deque<Action>::iterator which);

  std::vector<Action> actions_;
  std::map<int, int> forwards_, backwards_;  // by chunk: the next micro-batch
  std::deque<Action> left_;
};

template <class F>
void repeat(int times, F&& f) {
  for (int i = 0; i < times; ++i) f();
}

/// Numbers on which a rank's list depends.
struct Position {
  int rank, ranks, chunks, micro_batches;
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
