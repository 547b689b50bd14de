// The text that `hexad inspect` shows of a dataset.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// A prepared folder, or one dataset file with the tokenizer beside it.
struct InspectedDataset {
  struct Part {
    std::string name;  // "train", "heldout"; of a single file its name
    std::unique_ptr<TokenDataset> tokens;
  };
  std::string path;
  std::vector<Part> parts;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none
  std::string summary;                   // summary.json; empty: there is none
};

/// True if `path` is a file that begins as a dataset does, or a folder that has files of a prepared dataset.
bool is_dataset(const std::string& path);

/// Opens the dataset that is_dataset() finds. Calls `warn` if the tokenizer is not the one that made the tokens. Throws
/// Error(data) for damage; damaged contents are found only if `check` asks for it.
InspectedDataset open_dataset(const std::string& path, DatasetCheck check,
                              const std::function<void(const std::string&)>& warn);

/// For people: the tokenizer, what it was made from, a line a part, and how some documents begin.
std::string describe(const InspectedDataset& dataset);
/// The same as one JSON object.
std::string describe_json(const InspectedDataset& dataset);

}  // namespace hexad::data
