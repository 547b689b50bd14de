// Text that `hexad inspect` prints for a dataset.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// A prepared folder, or one dataset file with the tokenizer from its folder.
struct InspectedDataset {
  struct Part {
    std::string name;  // "train", "heldout"; for a single file, its name
    std::unique_ptr<TokenDataset> tokens;
  };
  std::string path;
  std::vector<Part> parts;
  std::unique_ptr<Tokenizer> tokenizer;  // null if there is none
  std::string summary;                   // text of summary.json; empty if there is none
};

/// True if `path` is a file that begins like a dataset, or a folder with files of a prepared dataset.
bool is_dataset(const std::string& path);

/// Opens the dataset that is_dataset() recognised. Calls `warn` if the tokenizer did not make the tokens. Throws
/// Error(data) if a file is damaged. Damaged contents are detected only if `check` includes them.
InspectedDataset open_dataset(const std::string& path, DatasetCheck check,
                              const std::function<void(const std::string&)>& warn);

/// Returns readable text: the tokenizer, the inputs of the dataset, a line per part, and the beginnings of some
/// documents.
std::string describe(const InspectedDataset& dataset);
/// Like describe(), as one JSON object.
std::string describe_json(const InspectedDataset& dataset);

}  // namespace hexad::data
