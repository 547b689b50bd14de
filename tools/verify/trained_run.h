// A run of `hexad train` itself, by its loop, beside the oracle.
#pragma once

#include "tools/verify/subject.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

/// Trains the variant with train::Trainer: from the oracle's checkpoint of the first step or, if the oracle is
/// eventful, from its start, with a first step that is not finite. Compares what the loop reports of every step and the
/// checkpoint that it saves in the end. Collective over the variant's ranks; the comparison is the same on all.
Comparison train_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                         const comm::ProcessGroup& world);

/// Folder in which a run of this recipe saves a step.
std::string checkpoint_folder(const Recipe& recipe, int64_t step);
/// The tensors of a checkpoint as pieces that rank 0 speaks for: what this layout saved, another one will load.
std::vector<Piece> saved_states(const std::string& folder, const WholeMap& expected, Device device);

/// Keeps what the loop prints from the terminal, if the variant is trained by it.
class Quiet {
 public:
  explicit Quiet(const Variant& variant);
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  int out_ = -1, error_ = -1;  // the terminal's; -1: it is not kept from anything
};

}  // namespace hexad::verify
