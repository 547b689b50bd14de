// A tape without numbers: what a pass over layers allocates, keeps and frees, counted instead of done. It follows
// autograd::Tape and autograd::Replay, whose lifetimes it has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hexad::plan {

/// Bytes that a rank's passes have in use, beside weights, gradients and optimizer states.
struct PassBytes {
  double activations = 0;  // what is kept for backward
  double total = 0;        // with what is there in passing: results on their way, rows from other ranks, scratch
  double blocks = 0;       // the same as the allocator takes it from the system: every block rounded up
};
PassBytes operator+(const PassBytes& a, const PassBytes& b);
PassBytes operator-(const PassBytes& a, const PassBytes& b);
/// Member by member.
PassBytes most_of(const PassBytes& a, const PassBytes& b);

/// A stretch of work between two hand-overs to another micro-batch: bytes relative to its begin.
struct Stretch {
  PassBytes peak, end;
};

/// Counts what is in use, and cuts the course of time into stretches.
class MemoryAccount {
 public:
  void add(double bytes, bool kept, int sign);
  /// A point where a forward and a backward that take turns hand over.
  void hand_over();
  /// The stretches since the last call.
  std::vector<Stretch> take();

 private:
  PassBytes now_, begin_, peak_;
  std::vector<Stretch> done_;
};

/// One block of memory; null: a tensor that is undefined, or lies in somebody else's account (weights).
class RoomOf;
using Room = std::shared_ptr<RoomOf>;

/// A tensor with its place on the tape; id < 0: it wants no gradient.
struct Place {
  Room data;
  int id = -1;
};

/// What an op does in backward.
class BackwardSketch;
using PullbackSketch = std::function<void(BackwardSketch&)>;

/// When an op's weights get their gradient: never, by a task that needs its output's gradient and what it saved, or by
/// tasks that it defers itself.
enum class WeightWork : uint8_t { none, task, deferred };

class MemoryTape {
 public:
  struct Options {
    bool recompute_norms = false;
    bool offload = false;  // what ops save is kept elsewhere, if it has this many bytes:
    double offload_from = 0;
  };
  enum class Mode : uint8_t { record, recompute, forget };  // as autograd::Tape::Mode

  MemoryTape(MemoryAccount& account, const Options& options, Mode mode);
  ~MemoryTape();
  MemoryTape(const MemoryTape&) = delete;
  MemoryTape& operator=(const MemoryTape&) = delete;

  Mode mode() const { return mode_; }
  bool recording() const { return mode_ != Mode::forget; }
  MemoryAccount& account() const { return account_; }
  const Options& options() const { return options_; }
  Room room(double bytes) const;
  Place leaf(Room data) { return {std::move(data), recording() ? values_++ : -1}; }
  std::vector<Place> record(std::vector<Room> outs, const std::vector<Place>& inputs, const std::vector<Room>& saved,
                            WeightWork weights, PullbackSketch pullback);
  /// What the last op made need not be kept by those who save it: it is made again from what that op saved.
  void make_again(const Place& out);

 private:
  friend class MemoryReplay;
  friend class BackwardSketch;
  struct Slot;
  struct Node;
  MemoryAccount& account_;
  Options options_;
  Mode mode_;
  int values_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::weak_ptr<RoomOf>, std::weak_ptr<Slot>>> again_;
};

/// A backward over the tape.
class MemoryReplay {
 public:
  MemoryReplay(MemoryTape& tape, const std::vector<Place>& roots, const std::vector<Room>& gradients,
               bool weights_delayed);
  ~MemoryReplay();
  MemoryReplay(const MemoryReplay&) = delete;
  MemoryReplay& operator=(const MemoryReplay&) = delete;

  bool step();
  bool step_weights();
  void run();
  size_t weights_left() const { return weights_.size(); }
  void seed(const Place& leaf, Room gradient);
  Room take_gradient(const Place& leaf);

 private:
  friend class BackwardSketch;
  void accumulate(int id, Room gradient);
  MemoryTape& tape_;
  const bool delayed_;
  std::vector<Room> gradients_;
  std::vector<std::function<void()>> weights_;
};

class BackwardSketch {
 public:
  bool wants(size_t input) const { return inputs_[input] >= 0; }
  const Room& output_gradient(size_t output) const { return douts_[output]; }
  const std::vector<Room>& saved() const { return saved_; }
  Room room(double bytes) const { return replay_.tape_.room(bytes); }
  const MemoryTape& tape() const { return replay_.tape_; }
  void accumulate(size_t input, Room gradient);
  /// Of a kernel that adds to what is there.
  void accumulate(size_t input, double bytes);
  Room take_gradient(size_t input);
  bool weights_delayed() const { return replay_.delayed_; }
  /// Holds the room until the op's weight task has run.
  void hold(Room room) { held_.push_back(std::move(room)); }
  void defer(std::function<void()> work);

 private:
  friend class MemoryReplay;
  BackwardSketch(MemoryReplay& replay, const std::vector<int>& inputs, const std::vector<Room>& douts,
                 const std::vector<Room>& saved, std::vector<Room>& held)
      : replay_(replay), inputs_(inputs), douts_(douts), saved_(saved), held_(held) {}
  MemoryReplay& replay_;
  const std::vector<int>& inputs_;
  const std::vector<Room>& douts_;
  const std::vector<Room>& saved_;
  std::vector<Room>& held_;
};

}  // namespace hexad::plan
