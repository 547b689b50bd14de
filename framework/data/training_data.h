// Data that a recipe's `data` section names: opened, checked against each other, ready to draw sequences from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/data/data_config.h"
#include "framework/data/sources.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

struct TrainingData {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> heldout = nullptr;       // null when nothing is held out
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  // null of a registered source
  std::vector<std::string> missing_heldout = {};         // files that are not there: nothing is held out of their data
  std::vector<Digest> fingerprints = {};                 // of the train files, in the recipe's order: for checkpoints
};

struct TrainingDataOptions {
  int64_t context;     // tokens in a sequence
  int64_t vocab_size;  // of the model; at least the tokenizer's
  uint64_t seed = 0;
  std::optional<std::vector<Digest>> expected = std::nullopt;  // fingerprints stored in a checkpoint
  FileWork work = {};                                          // told what is read
};

/// Throws Error(data) naming the file and the problem: missing or damaged files, a dataset made with another tokenizer
/// than its folder's or its mixture's or with more ids, changes since the checkpoint; Error(usage) when the model's
/// vocabulary is smaller than the tokenizer's, or the masked-LM objective meets a dataset with a loss mask.
/// `sources` holds what data.source may name; what it throws is there.
TrainingData open_training_data(const DataConfig& config, const TrainingDataOptions& options,
                                const Sources& sources = {});

}  // namespace hexad::data
