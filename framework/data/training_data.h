// Opens the datasets of a recipe's `data` section and checks that they fit each other and the model.
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
  std::shared_ptr<const Source> heldout = nullptr;       // null if nothing is held out
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  // null if the source is a registered one
  std::vector<std::string> missing_heldout = {};         // missing files; their datasets have no held-out part
  std::vector<Digest> fingerprints = {};  // one per train file, in the recipe's order; stored in checkpoints
};

struct TrainingDataOptions {
  int64_t context;     // tokens in a sequence
  int64_t vocab_size;  // size of the model's vocabulary; at least that of the tokenizer
  uint64_t seed = 0;
  std::optional<std::vector<Digest>> expected = std::nullopt;  // fingerprints stored in a checkpoint
  FileWork work = {};                                          // records progress of reads
};

/// Opens the data of `config`. `sources` holds the sources that data.source may name; their errors are passed on.
/// Throws Error(data), naming the file, in these cases: a file is missing or damaged; a dataset was made with another
/// tokenizer than that of its folder or mixture, or has more ids; a file changed since the checkpoint.
/// Throws Error(usage) if the model's vocabulary is smaller than the tokenizer's. Throws it also if the masked-LM
/// objective is used with a dataset that has a loss mask.
TrainingData open_training_data(const DataConfig& config, const TrainingDataOptions& options,
                                const Sources& sources = {});

}  // namespace hexad::data
