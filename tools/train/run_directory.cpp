#include "tools/train/run_directory.h"
#include "tools/train/say.h"

#include <filesystem>

#include "framework/base/path_problem.h"
#include "framework/data/prepare.h"
#include "framework/data/tokenizer.h"

namespace hexad::train {

RunDirectory open_run(const std::string& dir, const std::vector<std::string>& overrides, const std::string& step,
                      const Extensions& extensions, const base::FileWork& work) {
  require_run_directory(dir);
  const std::string path = dir + "/recipe.yaml";
  Recipe recipe = load_recipe(config::load(path, overrides), extensions, 0, say);
  recipe.run.dir = dir;
  require_datasets(recipe, path);
  io::StoreOptions options;
  options.warn = say;
  options.work = work;
  const io::CheckpointStore store(dir + "/checkpoints", options);
  auto checkpoint = store.find(io::Resume::parse(step), io::Check::quick);
  if (!checkpoint) base::fail(base::ExitCode::data, "'", dir, "' has no checkpoint yet");
  return {std::move(recipe), std::move(*checkpoint)};
}

void require_run_directory(const std::string& dir) {
  const std::string path = dir + "/recipe.yaml", problem = base::why_no_file(path);
  if (problem.empty()) return;
  base::fail(base::ExitCode::usage, "'", dir,
             "' is no run directory: ", problem == "no such file" ? "it has no recipe.yaml" : path + ": " + problem);
}

void require_datasets(const Recipe& recipe, const std::string& recipe_path) {
  namespace fs = std::filesystem;
  const auto require_one = [&](const std::string& key, const std::string& path) {
    const std::string problem = base::why_no_folder(path);
    if (problem.empty()) return;
    if (problem != "no such folder")
      base::fail(base::ExitCode::data, key, " (", path, "): ", problem, "; `hexad prepare` makes a dataset");
    std::error_code error;
    std::string where;
    if (fs::path(path).is_relative()) {
      where = base::cat(" in the working directory, ", fs::current_path().string(),
                        ", which relative paths of datasets are relative to");
      const fs::path beside = fs::path(recipe_path).parent_path() / path;
      if (fs::exists(beside, error)) where += base::cat("; there is ", beside.string(), " beside the recipe");
    }
    base::fail(base::ExitCode::data, key, " (", path, "): there is no such folder", where,
               "; `hexad prepare` makes a dataset");
  };
  if (recipe.data.synthetic) return;
  if (!recipe.data.dataset.empty()) require_one("data.dataset", recipe.data.dataset);
  for (size_t i = 0; i < recipe.data.mixture.size(); ++i)
    require_one(base::cat("data.mixture.", i, ".dataset"), recipe.data.mixture[i].dataset);
}

void complete(Recipe& recipe, int64_t cores) {
  if (recipe.model.vocab == 0) {
    const std::string folder = recipe.data.dataset.empty() ? recipe.data.mixture.front().dataset : recipe.data.dataset;
    const auto tokenizer = data::load_tokenizer((std::filesystem::path(folder) / data::tokenizer_file_name).string());
    recipe.model.vocab = tokenizer->vocab_size();
  }
  layers::ModelConfig& m = recipe.model;
  m.kv_heads = m.key_value_heads(), m.head_size = m.size_of_head(), m.mlp_hidden = m.dense_hidden();
  if (!recipe.train.threads) recipe.train.threads = cores;
}

}  // namespace hexad::train
