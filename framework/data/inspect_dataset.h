// Output of `hexad inspect` for a dataset.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// A prepared folder, or a single dataset (file or Megatron-LM index) together with the tokenizer in its folder.
struct InspectedDataset {
  struct Part {
    std::string name;  // "train" or "heldout"; for a single file, its name
    std::unique_ptr<TokenDataset> tokens;
  };
  std::string path;
  std::vector<Part> parts;
  std::unique_ptr<Tokenizer> tokenizer;  // null if there is none, or if another tokenizer made the tokens
  std::string summary;                   // text of summary.json; empty for a single dataset, or if there is none
};

/// True if `path` is a file that begins with the magic bytes of a dataset, or has the name of a Megatron-LM index
/// (.idx). Also true if `path` is a folder with a file that is named like a file of a prepared dataset.
bool is_dataset(const std::string& path);

/// Opens a dataset for which is_dataset() returns true. Calls `warn` if a part records another tokenizer than the
/// folder has. Also calls `warn` if summary.json is damaged, describes other parts, or records a file that is missing.
/// Throws Error(data) if a file of tokens or the tokenizer is damaged. Also throws Error(data) if a folder has
/// summary.json or heldout.hxd but no train.hxd. If `check` is DatasetCheck::everything, detects damaged contents, and
/// throws Error(data) for problems of summary.json instead of calling `warn`.
InspectedDataset open_dataset(const std::string& path, DatasetCheck check,
                              const std::function<void(const std::string&)>& warn);

/// Returns human-readable text: the path, the tokenizer, the inputs and settings of the dataset, two lines for each
/// part, and the beginnings of up to three documents of each part. Special tokens appear as their texts if the
/// tokenizer stores these texts. Without a tokenizer, the documents appear as token ids.
std::string describe(const InspectedDataset& dataset);
/// Returns the information of describe() as a JSON object.
std::string describe_json(const InspectedDataset& dataset);

}  // namespace hexad::data
