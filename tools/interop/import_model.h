// Import of a Hugging Face model as a Hexad checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/file_work.h"

namespace hexad::interop {

/// Beginning of the layout in the manifest of an imported checkpoint. The source folder follows.
inline constexpr std::string_view imported_from = "imported from ";

struct ImportOptions {
  int64_t shard_bytes =
      int64_t{4} << 30;    // largest size of the tensors in a shard; a larger tensor gets a shard for itself
  bool text_only = false;  // true: leave out tensors outside the text model, instead of refusing them
};

struct ImportReport {
  std::string model_type{};
  int64_t tensors = 0, parameters = 0, bytes = 0;  // sums over the foreign weights that were read
  std::vector<std::string> files{};                // copied tokenizer and generation files
  std::vector<std::string> notes{};                // facts that the user should know
};

/// Reads the model in `source` and writes the folder `target`. The folder has a checkpoint that train.init_from
/// accepts, and recipe.yaml with the section `model` and train.init_from. Its subfolder hugging_face has config.json,
/// tokenizer files and data for the export. Keeps at most one tensor and some buffers in memory. Runs no code of the
/// source folder. After an error, nothing is left at `target`. Throws:
/// - Error(usage) if the target is not empty
/// - Error(data) naming the file and the key or tensor for any problem of the source
/// - Error(resource) if writing to the disk fails
ImportReport import_model(const std::string& source, const std::string& target, const ImportOptions& options = {},
                          const base::FileWork& work = {});

}  // namespace hexad::interop
