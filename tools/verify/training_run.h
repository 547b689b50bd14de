// A training run in memory, without run directory, metrics and output.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/data/source.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/model/train_step.h"
#include "tools/verify/tensor_pieces.h"
#include "tools/verify/verify_names.h"

namespace hexad::verify {

/// One rank's part of a training run.
class TrainingRun {
 public:
  /// Function that each step calls after the gradients are reduced and before they are used.
  using GradientObserver = std::function<void(TrainingRun&)>;
  /// Makes a run before its first step. `world` must outlive the run. `observe` may be empty. Throws the same errors as
  /// `hexad train`. Collective.
  TrainingRun(const Recipe& recipe, const comm::ProcessGroup& world, const Extensions& extensions = {},
              GradientObserver observe = {});

  /// Runs the next step, at the learning rate of the recipe's schedule. Collective.
  StepResult step(const data::Source& source);
  /// Like step(), but returns while weights are still being gathered, as in a run of `hexad train`. The next call must
  /// be another step, a pass that uses all weights, or held_weights().
  StepResult step_ahead(const data::Source& source);

  /// Return the pieces of weights, or of the gradients of trainable parameters, that this rank holds. Gradients are
  /// taken from the last step, after reduction and before clipping.
  std::vector<Piece> held_weights() const;
  std::vector<Piece> held_gradients() const;
  /// Returns the optimizer's states, such as main weights and moments, and router states. Their names are like
  /// "NAME/moment1" and "NAME/state".
  std::vector<Piece> held_states() const;

  /// Returns copies of the whole tensors in host memory, equal on all ranks. Collective.
  TensorMap weights() const { return whole(held_weights()); }
  TensorMap gradients() const { return whole(held_gradients()); }
  TensorMap states() const { return whole(held_states()); }

  /// Saves a checkpoint in run.dir. Collective.
  void save();
  /// Loads a checkpoint. Collective.
  void load(const std::string& checkpoint_folder);
  /// Loads weights and router states of a checkpoint, as train.init_from does.
  void init_from(const std::string& checkpoint_folder);
  /// Sets the first element of a parameter's gradient to NaN on the rank that owns this element.
  void ruin_gradient(const std::string& name);

  Recipe recipe;
  ModelInstance instance;
  optim::Optimizer optimizer;
  TrainStep train;
  Progress progress;

 private:
  Tensor on_host(const Tensor& t) const;
  /// Returns the piece of a parameter that this rank holds (whole_piece) or owns (owned_piece).
  Piece whole_piece(const std::string& name, const Parameter& p, const Tensor& local) const;
  Piece owned_piece(const std::string& name, const Parameter& p, const Tensor& owned) const;
  Stream& stream() const;
  TensorMap whole(const std::vector<Piece>& pieces) const;
  const comm::ProcessGroup& world_;
};

/// True if this rank owns the first element of the global tensor.
bool owns_first_element(const Parameter& parameter);

/// Results of several steps.
struct Trajectory {
  struct Step {
    StepResult result;
    TensorMap gradients;
  };
  std::vector<Step> steps;
  TensorMap weights, states;
};
Trajectory trajectory(TrainingRun& run, const data::Source& source, int steps);

}  // namespace hexad::verify
