// Output of `hexad eval --choices`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/train/model/choices.h"

namespace hexad::app {

/// Results of a run's model on a file of multiple-choice questions.
struct ChoiceEvaluation {
  std::string run{}, file{}, layout{};
  int64_t step = 0;
  double seconds = 0;
  std::vector<train::ChoiceItem> items{};
  train::ChoiceScores scores{};
};

/// Throws Error(usage) if write_choice_items() cannot or must not write the file `items`:
/// - `items` is a folder.
/// - The folder that contains `items` does not exist.
/// - `items` is the file of questions `choices`, which would be replaced.
///
/// Call this function before the evaluation, because results that cannot be written are lost.
void require_items_path(const std::string& items, const std::string& choices);

/// Prints acc, acc_norm and acc_bytes, as text or as one JSON object.
void print_choices(const ChoiceEvaluation& evaluation, bool json);
/// Writes a JSON object for each item to `path`: line, gold, choices of the model, and log-likelihoods. Throws
/// Error(resource) if the file cannot be written.
void write_choice_items(const ChoiceEvaluation& evaluation, const std::string& path);

}  // namespace hexad::app
