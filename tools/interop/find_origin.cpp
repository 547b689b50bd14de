#include "tools/interop/find_origin.h"

#include <filesystem>
#include <utility>

#include "framework/base/absolute_path.h"
#include "framework/io/json.h"
#include "tools/interop/import_model.h"
#include "tools/interop/origin.h"

namespace hexad::interop {

using namespace base;

namespace fs = std::filesystem;

namespace {

constexpr const char* store_name = "checkpoints";

// Returns the value of train.init_from in a recipe; empty if it is not set.
std::string start_of(const config::Document& recipe) {
  const config::Node* train = recipe.root.find("train");
  const config::Node* start = train && train->kind == config::Node::Kind::map ? train->find("init_from") : nullptr;
  return start && start->kind == config::Node::Kind::scalar ? start->text : "";
}

// True if `folder` is an import of `source`. Compares absolute paths, because older imports and recipes have relative
// paths.
bool is_import_of(const std::string& folder, const std::string& source) {
  std::error_code error;
  if (!fs::exists(folder + "/manifest.json", error)) return false;
  const io::Checkpoint imported = io::Checkpoint::open(folder, io::Check::quick);
  const io::Json layout = io::parse_json(imported.run().layout, folder + "/manifest.json: layout");
  const std::string text = layout.is_string() ? layout.get<std::string>() : "";
  return text.starts_with(imported_from) && absolute_path(text.substr(imported_from.size())) == absolute_path(source);
}

// Returns the parent folder of a path that may end with a slash.
fs::path parent_of(const fs::path& path) { return (path.has_filename() ? path : path.parent_path()).parent_path(); }

// Returns the folder of the foreign model that the run of the checkpoint `folder` imported into its run directory;
// empty if there is none. `start` is the train.init_from of the run. Checks that the import is of `start`. An earlier
// run in the same directory may have left the import of another model.
std::string imported_by_run(const std::string& folder, const std::string& start) {
  fs::path store = parent_of(folder);
  // A relative path such as "step-00000002" does not name the folder of the checkpoints.
  if (store.filename() != store_name) store = parent_of(fs::path(absolute_path(folder)).lexically_normal());
  const std::string imported = (store.parent_path() / "imported").string();
  std::string beside = imported + "/" + std::string(origin_folder_name);
  const bool found =
      store.filename() == store_name && has_config(beside) && (start.empty() || is_import_of(imported, start));
  return found ? beside : "";
}

}  // namespace

config::Document recipe_of(const io::Checkpoint& checkpoint) {
  return config::parse(checkpoint.run().recipe, checkpoint.folder() + "/manifest.json: recipe");
}

std::string find_origin(const io::Checkpoint& checkpoint) {
  constexpr int max_runs = 100;  // maximum length of a chain of runs, each of which started from the previous run
  std::string folder = checkpoint.folder(), start = start_of(recipe_of(checkpoint));
  for (int i = 0; i < max_runs; ++i) {
    if (const std::string imported = imported_by_run(folder, start); !imported.empty()) return imported;
    const std::string beside = folder + "/" + std::string(origin_folder_name);
    if (has_config(beside)) return beside;
    if (start.empty()) return "";
    folder = std::exchange(start, "");
    std::error_code error;
    if (fs::exists(folder + "/manifest.json", error))
      start = start_of(recipe_of(io::Checkpoint::open(folder, io::Check::quick)));
    else
      return has_config(folder) ? folder : "";
  }
  return "";
}

}  // namespace hexad::interop
