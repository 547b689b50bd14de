// Compares the training loop of `hexad train` with the oracle.
#pragma once

#include "tools/verify/subject.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

/// Trains the variant with train::Trainer. The run resumes from the checkpoint that the oracle saved after its first
/// step. If the subject is eventful, the run instead starts from the oracle's initial weights, and its first step is
/// not finite. Compares the reported metrics of all steps and the last checkpoint. Returns the same comparison on all
/// ranks. Collective over the variant's ranks.
Comparison train_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                         const comm::ProcessGroup& world);

/// Returns the folder in which a run of this recipe saves the checkpoint of `step`.
std::string checkpoint_folder(const Recipe& recipe, int64_t step);
/// Returns the checkpoint's tensors with the names in `expected`, as pieces that rank 0 owns.
std::vector<Piece> saved_states(const std::string& folder, const WholeMap& expected, Device device);

/// Hides the output of the training loop from the terminal while the object exists. Has no effect if the variant does
/// not use the loop of `hexad train`.
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
