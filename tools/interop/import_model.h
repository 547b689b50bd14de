// Import of a model of the Hugging Face library as a checkpoint of Hexad.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/file_work.h"

namespace hexad::interop {

struct ImportOptions {
  int64_t shard_bytes = int64_t{4} << 30;  // largest size of the tensors in a shard; a larger tensor has its own shard
};

struct ImportReport {
  std::string model_type{};
  int64_t tensors = 0, parameters = 0, bytes = 0;  // of the foreign weights that were read
  std::vector<std::string> files{};                // copied tokenizer and generation files
  std::vector<std::string> notes{};                // facts that the user should know
};

/// Reads the model in `source` and writes the folder `target`: a checkpoint that train.init_from accepts, recipe.yaml
/// with the section `model`, and the folder hugging_face with config.json, tokenizer files and facts for the export.
/// At most one tensor and some buffers are in memory. Runs no code of the source folder. Throws Error(usage) if the
/// target is not empty, Error(data) that names the file and the key or tensor for any problem of the source, and
/// Error(resource) if the disk fails. After an error, nothing is left at `target`.
ImportReport import_model(const std::string& source, const std::string& target, const ImportOptions& options = {},
                          const base::FileWork& work = {});

}  // namespace hexad::interop
