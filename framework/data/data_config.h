// The recipe's section `data`.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/constraints.h"
#include "framework/config/options.h"
#include "framework/config/problems.h"
#include "framework/data/packed_source.h"

namespace hexad::data {

constexpr auto enum_names(Packing) {
  return std::to_array<std::pair<Packing, std::string_view>>(
      {{Packing::isolated, "isolated"}, {Packing::joined, "joined"}});
}

constexpr auto enum_names(Shuffle) {
  return std::to_array<std::pair<Shuffle, std::string_view>>(
      {{Shuffle::sequences, "sequences"}, {Shuffle::documents, "documents"}});
}

constexpr auto enum_names(DatasetCheck) {
  return std::to_array<std::pair<DatasetCheck, std::string_view>>(
      {{DatasetCheck::everything, "everything"}, {DatasetCheck::structure, "structure"}});
}

struct MixtureEntry {
  std::string dataset = {};
  double weight = 1;

  template <class V>
  void fields(V& v) {
    v("dataset", dataset, "folder written by `hexad prepare`, or an index NAME.idx of Megatron-LM", config::file_path,
      config::non_empty());
    v("weight", weight, "share of the training sequences, relative to the other weights", config::positive());
  }
};

struct DataConfig {
  std::string dataset = {};
  std::vector<MixtureEntry> mixture = {};
  bool synthetic = false;
  std::string source = {};
  std::vector<config::TextOption> source_options = {};
  Packing packing = Packing::isolated;
  std::optional<Shuffle> shuffle = std::nullopt;
  double mlm_probability = 0;
  DatasetCheck check = DatasetCheck::everything;

  /// True if tokens come from a registered source, which has no tokenizer. source_name() returns the name of the
  /// source.
  bool registered() const { return synthetic || !source.empty(); }
  std::string source_name() const { return synthetic ? "synthetic" : source; }
  /// Returns the weights of `mixture`.
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const MixtureEntry& entry : mixture) all.push_back(entry.weight);
    return all;
  }
  /// Returns the units that a new run reshuffles in every epoch.
  Shuffle order() const { return shuffle.value_or(Shuffle::sequences); }

  template <class V>
  void fields(V& v) {
    v("dataset", dataset, "folder written by `hexad prepare`, or an index NAME.idx of Megatron-LM", config::file_path);
    v("mixture", mixture, "several datasets with the same tokenizer, each with a weight; replaces `dataset`");
    v("synthetic", synthetic, "random tokens instead of a dataset, for benchmarks");
    v("source", source, "name of a registered source, such as synthetic; replaces `dataset`");
    v("source_options", source_options, "options of the registered source, each a name and a text or number");
    v("packing", packing, "isolated: tokens attend only to their own document; joined: a sequence is one document");
    v("shuffle", shuffle,
      "units that are reshuffled in every epoch: sequences (packed sequences) or documents (a long document then "
      "fills consecutive steps); auto: sequences, or the units with which a resumed run began",
      config::automatic);
    v("mlm_probability", mlm_probability,
      "share of the tokens that the masked-LM objective predicts; 0: predict the next token", config::probability());
    v("check", check,
      "checks of a dataset when it is opened: everything (reads the whole file) or structure (skips the contents)");
  }
};

/// Reports a problem if none, or more than one, of dataset, mixture, synthetic and source is set. Also reports an
/// mlm_probability with a registered source, and source_options without `source`.
void check(const DataConfig& data, config::Problems& problems);

}  // namespace hexad::data
