#include "framework/data/dataset_paths.h"

#include <filesystem>

#include "framework/data/megatron_index.h"
#include "framework/data/prepare.h"

namespace hexad::data {
namespace fs = std::filesystem;

std::string train_path(const std::string& dataset) {
  return is_megatron_index(dataset) ? dataset : (fs::path(dataset) / train_file_name).string();
}

std::string heldout_path(const std::string& dataset) {
  if (!is_megatron_index(dataset)) return (fs::path(dataset) / heldout_file_name).string();
  return fs::path(dataset).replace_extension(".heldout.idx").string();
}

std::string tokenizer_path(const std::string& dataset) {
  const fs::path path(dataset);
  return ((is_megatron_index(dataset) ? path.parent_path() : path) / tokenizer_file_name).string();
}

}  // namespace hexad::data
