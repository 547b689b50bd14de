#include "tools/interop/find_origin.h"

#include <filesystem>
#include <utility>

#include "framework/io/json.h"
#include "tools/interop/origin.h"

namespace hexad::interop {

using namespace base;

namespace fs = std::filesystem;

namespace {

// Returns the value of train.init_from in a recipe; empty if it is not set.
std::string start_of(const config::Document& recipe) {
  const config::Node* train = recipe.root.find("train");
  const config::Node* start = train && train->kind == config::Node::Kind::map ? train->find("init_from") : nullptr;
  return start && start->kind == config::Node::Kind::scalar ? start->text : "";
}

// True if `folder` is an import of `source`.
bool is_import_of(const std::string& folder, const std::string& source) {
  std::error_code error;
  if (!fs::exists(folder + "/manifest.json", error)) return false;
  const io::Checkpoint imported = io::Checkpoint::open(folder, io::Check::quick);
  return io::parse_json(imported.run().layout, folder + "/manifest.json: layout") == cat("imported from ", source);
}

}  // namespace

config::Document recipe_of(const io::Checkpoint& checkpoint) {
  return config::parse(checkpoint.run().recipe, checkpoint.folder() + "/manifest.json: recipe");
}

std::string find_origin(const io::Checkpoint& checkpoint) {
  constexpr int most_runs = 100;  // limit of a chain of runs, each started from the previous one
  const std::string name(origin_folder_name);
  std::string folder = checkpoint.folder(), start = start_of(recipe_of(checkpoint));
  // A run that started from a foreign model has imported it into its run directory. An earlier run in the same
  // directory may have left the import of another model there.
  const fs::path store = fs::path(folder).parent_path();
  const std::string imported = (store.parent_path() / "imported").string(), beside = imported + "/" + name;
  if (store.filename() == "checkpoints" && has_config(beside) && (start.empty() || is_import_of(imported, start)))
    return beside;
  for (int i = 0; i < most_runs; ++i) {
    if (has_config(folder + "/" + name)) return folder + "/" + name;
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
