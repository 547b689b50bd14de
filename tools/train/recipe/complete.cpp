#include "tools/train/recipe/complete.h"

#include <filesystem>

#include "framework/base/path_problem.h"
#include "framework/data/dataset_paths.h"
#include "framework/data/megatron_index.h"
#include "framework/data/tokenizer.h"

namespace hexad::train {

namespace fs = std::filesystem;

void require_datasets(const Recipe& recipe, const std::string& recipe_path) {
  const auto require_one = [&](const std::string& key, const std::string& path) {
    const bool is_index = data::is_megatron_index(path);
    const std::string problem = is_index ? base::file_problem(path) : base::folder_problem(path);
    if (problem.empty()) return;
    const std::string_view remedy = is_index ? "expected an index of Megatron-LM" : "`hexad prepare` makes a dataset";
    if (problem != (is_index ? "no such file" : "no such folder"))
      base::fail(base::ExitCode::data, key, " (", path, "): ", problem, "; ", remedy);
    std::error_code error;
    std::string where;
    if (fs::path(path).is_relative()) {
      where = base::cat(" in the working directory, ", fs::current_path().string(),
                        ", to which dataset paths are relative");
      const fs::path beside = fs::path(recipe_path).parent_path() / path;
      if (fs::exists(beside, error)) where += base::cat("; found ", beside.string(), " next to the recipe");
    }
    base::fail(base::ExitCode::data, key, " (", path, "): ", problem, where, "; ", remedy);
  };
  if (recipe.data.synthetic) return;
  if (!recipe.data.dataset.empty()) require_one("data.dataset", recipe.data.dataset);
  for (size_t i = 0; i < recipe.data.mixture.size(); ++i)
    require_one(base::cat("data.mixture.", i, ".dataset"), recipe.data.mixture[i].dataset);
}

void complete(Recipe& recipe, int64_t cores) {
  if (recipe.model.vocab == 0) {
    const std::string folder = recipe.data.dataset.empty() ? recipe.data.mixture.front().dataset : recipe.data.dataset;
    const std::string path = data::tokenizer_path(folder);
    if (data::is_megatron_index(folder) && base::file_problem(path) == "no such file")
      base::fail(base::ExitCode::usage, "model.vocab (0) must be set: ", folder, " has no tokenizer next to it (", path,
                 ")");
    const auto tokenizer = data::load_tokenizer(path);
    recipe.model.vocab = tokenizer->vocab_size();
  }
  layers::ModelConfig& m = recipe.model;
  m.kv_heads = m.key_value_heads(), m.head_size = m.size_of_head(), m.mlp_hidden = m.dense_hidden();
  if (!recipe.train.threads) recipe.train.threads = cores;
}

}  // namespace hexad::train
