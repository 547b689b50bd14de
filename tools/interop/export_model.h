// Export of a Hexad checkpoint as a model in the format of the Hugging Face library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/io/checkpoint.h"

namespace hexad::interop {

struct ExportOptions {
  // Folder of the config.json to keep or adapt, and of the tokenizer files to copy. Empty: the imported
  // model from which the checkpoint's run started.
  std::string like{};
  // model_type of the result. Empty: the model_type of the origin. If the origin is of another family, or if there is
  // no origin, config.json is new.
  std::string family{};
  std::string dtype = "source";            // source, f32, bf16 or f16
  int64_t shard_bytes = int64_t{5} << 30;  // largest size of the tensors in a shard; a larger tensor gets its own shard
};

struct ExportReport {
  std::string model_type{}, origin{};  // origin: folder from which config.json comes; empty: a new config.json
  int64_t tensors = 0, parameters = 0, bytes = 0, shards = 0;
  std::vector<std::string> files{};  // copied tokenizer and generation files
  std::vector<std::string> notes{};  // facts that the user should know
};

/// Writes the folder `target`: config.json, safetensors shards with their index, and the origin's tokenizer files. The
/// origin is options.like or, if this is empty, the import from which the checkpoint's run started. The origin may be
/// of another family than options.family, for example because the run made experts of a dense model. The result then
/// has the origin's tokenizer files and token ids, but a new config.json. If options.dtype is "source", the result also
/// has the origin's usual dtype. Keeps at most one tensor and some buffers in memory. After an error, nothing is left
/// at `target`. Throws:
/// - Error(usage) if the target is not empty, or if there is neither an origin nor options.family
/// - Error(data) naming the recipe key or the tensor if the family cannot express the model or the checkpoint is
///   damaged
/// - Error(resource) if writing to the disk fails
ExportReport export_model(io::Checkpoint& checkpoint, const std::string& target, const ExportOptions& options = {},
                          const base::FileWork& work = {});

}  // namespace hexad::interop
