#include "framework/data/training_data.h"

#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/error.h"
#include "framework/data/dataset_paths.h"
#include "framework/data/masked_source.h"
#include "framework/data/mixture_source.h"
#include "framework/data/prepare.h"

namespace hexad::data {

using namespace base;
namespace {

bool may_exist(const std::string& path) {
  std::error_code error;  // opening reports the reason if the file exists but cannot be examined
  return std::filesystem::exists(path, error) || error;
}

class Opener {
 public:
  Opener(const DataConfig& config, const TrainingDataOptions& options) : config_(config), options_(options) {}

  TrainingData open(std::vector<MixtureEntry> entries) {
    if (options_.expected && options_.expected->size() != entries.size()) {
      fail(ExitCode::data, "data: the number of datasets is ", entries.size(), ", expected ", options_.expected->size(),
           ", the number on which the checkpoint was trained");
    }
    std::vector<MixtureSource::Part> parts;
    for (const MixtureEntry& entry : entries) open_tokenizer(entry.dataset);
    if (tokenizer_ && tokenizer_->vocab_size() > options_.vocab_size) {
      fail(ExitCode::usage, "model.vocab (", options_.vocab_size, ") must be at least the vocabulary of ",
           first_folder_, "'s tokenizer: ", tokenizer_->vocab_size());
    }
    if (!tokenizer_ && config_.mlm_probability > 0) {
      fail(ExitCode::usage, "data.mlm_probability (", config_.mlm_probability, ") must be 0: ", entries.front().dataset,
           " has no ", tokenizer_file_name, " next to it, so there is no mask token");
    }
    for (const MixtureEntry& entry : entries) {
      parts.push_back({open_train(entry.dataset), entry.weight});
      open_heldout(entry.dataset);
    }
    if (parts.size() == 1) {
      data_.train = parts.front().source;
    } else {
      data_.train = data_.mixture = std::make_shared<const MixtureSource>(std::move(parts), options_.mixture_start);
    }
    if (!heldout_.empty()) data_.heldout = std::make_shared<ConcatenatedSource>(std::move(heldout_));
    if (config_.mlm_probability > 0) {
      // The masks of held-out text have a fixed seed, so losses of different runs are comparable.
      data_.train = masked(data_.train, options_.seed);
      if (data_.heldout) data_.heldout = masked(data_.heldout, 0);
    }
    data_.tokenizer = tokenizer_;
    return std::move(data_);
  }

 private:
  // Opens the tokenizer of a dataset. Only an index of Megatron-LM may lack a tokenizer.
  void open_tokenizer(const std::string& folder) {
    const std::string path = tokenizer_path(folder);
    if (is_megatron_index(folder) && !may_exist(path)) return;
    std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(path);
    if (tokenizer_ && tokenizer_->fingerprint() != tokenizer->fingerprint()) {
      fail(ExitCode::data, path, ": differs from the tokenizer of ", first_folder_,
           "; prepare all datasets of a mixture with the same tokenizer (hexad prepare --tokenizer FILE)");
    }
    if (!tokenizer_) first_folder_ = folder;
    tokenizer_ = std::move(tokenizer);
  }

  int64_t vocab_size() const { return tokenizer_ ? tokenizer_->vocab_size() : options_.vocab_size; }

  std::shared_ptr<const TokenDataset> open_file(const std::string& path, std::optional<Digest> expected) const {
    auto dataset = std::make_shared<const TokenDataset>(
        path, DatasetOpenOptions{
                  .check = config_.check, .expected = expected, .work = options_.work, .vocab_size = vocab_size()});
    if (dataset->has_tokenizer() && tokenizer_ && dataset->tokenizer() != tokenizer_->fingerprint()) {
      fail(ExitCode::data, path, ": was made with tokenizer ", dataset->tokenizer(), " (fingerprint), but ",
           tokenizer_file_name, " next to it has fingerprint ", tokenizer_->fingerprint(),
           "; put the right tokenizer next to it, or run hexad prepare again");
    }
    // Reading checks each id against the vocabulary of the file. The check here ensures that all ids are in the
    // vocabulary of the model. Embedding and loss do not check ids on a device.
    if (dataset->vocab_size() > vocab_size()) {
      fail(ExitCode::data, path, ": has a vocabulary of ", dataset->vocab_size(), " ids, but ",
           tokenizer_ ? cat(tokenizer_file_name, " next to it has ") : cat("model.vocab is "), vocab_size(),
           tokenizer_ ? std::string("; put the right tokenizer next to it, or run hexad prepare again")
                      : cat("; set model.vocab to at least ", dataset->vocab_size()));
    }
    if (config_.mlm_probability > 0 && dataset->has_loss_mask()) {
      fail(ExitCode::usage, "data.mlm_probability (", config_.mlm_probability, ") must be 0: ", path,
           " has a loss mask, which already selects the next tokens to predict");
    }
    return dataset;
  }

  std::shared_ptr<const Source> open_train(const std::string& folder) {
    const size_t part = data_.fingerprints.size();
    const auto expected = options_.expected ? std::optional((*options_.expected)[part]) : std::nullopt;
    auto dataset = open_file(train_path(folder), expected);
    data_.fingerprints.push_back(dataset->fingerprint());
    data_.datasets.push_back({folder, dataset->fingerprint(), dataset->documents(), dataset->tokens()});
    const uint64_t seed = options_.seed + part;  // equal datasets in a mixture have different orders
    if (config_.order() == Shuffle::documents) {
      return std::make_shared<ShuffledDocuments>(std::move(dataset), options_.context, config_.packing, seed);
    }
    return std::make_shared<ShuffledSequences>(std::move(dataset), options_.context, config_.packing, seed);
  }

  void open_heldout(const std::string& folder) {
    const std::string path = heldout_path(folder);
    if (!may_exist(path)) return data_.missing_heldout.push_back(path);
    heldout_.push_back(
        std::make_shared<SequentialSource>(open_file(path, std::nullopt), options_.context, config_.packing));
  }

  std::shared_ptr<const Source> masked(std::shared_ptr<const Source> text, uint64_t seed) const {
    if (tokenizer_->mask() < 0)
      fail(ExitCode::usage, "data.mlm_probability (", config_.mlm_probability, ") must be 0: the tokenizer in ",
           first_folder_,
           " is from another program and has no mask id; to make a tokenizer with a mask id, run `hexad prepare "
           "--tokenizer bpe`");
    return std::make_shared<MaskedSource>(std::move(text), MaskingOptions{.probability = config_.mlm_probability,
                                                                          .mask_id = tokenizer_->mask(),
                                                                          .text_ids = tokenizer_->text_ids(),
                                                                          .seed = seed});
  }

  const DataConfig& config_;
  const TrainingDataOptions& options_;
  TrainingData data_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string first_folder_;
  std::vector<std::shared_ptr<const Source>> heldout_;
};

}  // namespace

void check(const DataConfig& data, config::Problems& problems) {
  std::vector<std::string_view> given;
  if (!data.dataset.empty()) given.push_back("data.dataset");
  if (!data.mixture.empty()) given.push_back("data.mixture");
  if (data.synthetic) given.push_back("data.synthetic");
  if (!data.source.empty()) given.push_back("data.source");
  if (given.size() != 1) {
    std::string found = "none is set";
    if (!given.empty()) found = fmt::format("these are set: {}", fmt::join(given, ", "));
    // On the command line, the inner quotes of data.dataset='""' must reach this program.
    if (given.size() > 1 && !data.dataset.empty())
      found += "; to use another of the four, remove data.dataset, or give data.dataset='\"\"' on the command line";
    problems.add("data.dataset", cat("must be set, or one of data.mixture, data.synthetic and data.source instead: "
                                     "expected exactly one of the four, but ",
                                     found));
  }
  if (data.registered() && data.mlm_probability > 0) {
    problems.add("data.mlm_probability", cat("must be 0 with ", data.synthetic ? "data.synthetic" : "data.source",
                                             ", which has no mask token"));
  }
  if (data.source.empty() && !data.source_options.empty()) {
    problems.add(
        "data.source_options.0.name",
        "is an option of a registered source, but data.source is not set; set data.source, or remove the option");
  }
}

TrainingData open_training_data(const DataConfig& config, const TrainingDataOptions& options, const Sources& sources) {
  if (config.registered()) {
    const std::string name = config.source_name();
    NamedData data = sources.open(name, {.context = options.context, .vocab = options.vocab_size, .seed = options.seed},
                                  config.source_options);
    return {.train = std::move(data.train), .heldout = std::move(data.heldout)};
  }
  std::vector<MixtureEntry> entries = config.mixture;
  if (!config.dataset.empty()) entries.push_back({config.dataset, 1});
  require(!entries.empty(), "[data] no dataset is set; check() must reject such a recipe");
  return Opener(config, options).open(std::move(entries));
}

}  // namespace hexad::data
