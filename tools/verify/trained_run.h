// Comparison of the training loop of `hexad train` with the oracle.
#pragma once

#include "tools/verify/subject.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

/// Trains the variant with train::Trainer. The run starts from the checkpoint that the oracle saved after its first
/// step. If the oracle is eventful, the run starts from the oracle's initial weights, and its first step is not finite.
/// Compares the reports of all steps and the last checkpoint. Collective over the variant's ranks; the comparison is
/// the same on all of them.
Comparison train_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                         const comm::ProcessGroup& world);

/// Returns the folder in which a run of this recipe saves the checkpoint of `step`.
std::string checkpoint_folder(const Recipe& recipe, int64_t step);
/// Returns the tensors of a checkpoint as pieces that rank 0 owns. Other layouts can load these tensors.
std::vector<Piece> saved_states(const std::string& folder, const WholeMap& expected, Device device);

/// Hides the training loop's output from the terminal while the object exists, if the variant uses this loop.
class Quiet {
 public:
  explicit Quiet(const Variant& variant);
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  int out_ = -1, error_ = -1;  // the terminal's descriptors; -1: the output is not hidden
};

}  // namespace hexad::verify
