// Output of `hexad inspect` for a dataset.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// A prepared folder, or a single dataset file together with the tokenizer in its folder.
struct InspectedDataset {
  struct Part {
    std::string name;  // "train" or "heldout"; for a single file, its name
    std::unique_ptr<TokenDataset> tokens;
  };
  std::string path;
  std::vector<Part> parts;
  std::unique_ptr<Tokenizer> tokenizer;  // null if there is none
  std::string summary;                   // text of summary.json; empty if there is none
};

/// True if `path` is a file that begins with the magic bytes of a dataset, or a folder that contains files of a
/// prepared dataset.
bool is_dataset(const std::string& path);

/// Opens a dataset for which is_dataset() returns true. Calls `warn` if the tokens were made with a tokenizer other
/// than the one in the folder. Throws Error(data) if a file is damaged. Damaged contents are detected only if `check`
/// includes the contents.
InspectedDataset open_dataset(const std::string& path, DatasetCheck check,
                              const std::function<void(const std::string&)>& warn);

/// Returns a text for readers: the tokenizer, the inputs of the dataset, one line for each part, and the beginnings of
/// some documents.
std::string describe(const InspectedDataset& dataset);
/// Returns the information of describe() as a JSON object.
std::string describe_json(const InspectedDataset& dataset);

}  // namespace hexad::data
