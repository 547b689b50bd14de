// Opening of the datasets of a recipe's section `data`, with checks that they match each other and the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/data/data_config.h"
#include "framework/data/mixture_division.h"
#include "framework/data/sources.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

class MixtureSource;

/// A dataset that is open for training.
struct OpenedDataset {
  std::string path;  // path as written in the recipe
  Digest fingerprint;
  int64_t documents = 0;
  int64_t tokens = 0;
};

struct TrainingData {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> heldout = nullptr;       // null if nothing is held out
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  // null for a registered source, and
                                                         // for indexes of Megatron-LM without a tokenizer
  std::vector<std::string> missing_heldout = {};  // missing held-out files; no text of these datasets is held out
  std::vector<OpenedDataset> datasets = {};       // in the recipe's order; empty for a registered source
  std::shared_ptr<const MixtureSource> mixture =
      nullptr;                            // set only for several datasets; `train` then draws from `mixture`
  std::vector<Digest> fingerprints = {};  // one for each training file, in the recipe's order
};

struct TrainingDataOptions {
  int64_t context;     // number of tokens in a sequence
  int64_t vocab_size;  // size of the model's vocabulary; not smaller than the tokenizer's vocabulary
  uint64_t seed = 0;
  std::optional<std::vector<Digest>> expected = std::nullopt;  // fingerprints in the checkpoint; nullopt: not checked
  FileWork work = {};                                          // receives the progress of reads
  MixtureStart mixture_start = {};  // start of the mixture's present weights; ignored if there is only one dataset
};

/// Opens the data of `config`. `sources` contains the sources that data.source may name. Errors that a source throws
/// are passed on. Throws Error(data) in these cases:
/// - A file is missing, damaged, or changed since the checkpoint. The message names the file.
/// - The number of datasets differs from the checkpoint.
/// - The tokenizers of a mixture differ.
/// - A dataset was not made with the tokenizer in its folder.
/// - A dataset has a larger vocabulary than its tokenizer or, without a tokenizer, than the model.
/// Throws Error(usage) in these cases:
/// - The model's vocabulary is smaller than the tokenizer's vocabulary.
/// - The masked-LM objective is used without a mask token, or with a dataset that has a loss mask.
TrainingData open_training_data(const DataConfig& config, const TrainingDataOptions& options,
                                const Sources& sources = {});

}  // namespace hexad::data
