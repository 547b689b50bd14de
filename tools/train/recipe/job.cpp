#include "tools/train/recipe/job.h"

#include "framework/config/document.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/traffic_options.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {
namespace {

// Returns a hint for a user who started one process although the layout needs several ranks: the line that starts all
// ranks of `command`. Returns an empty text if one rank is enough, or if the recipe has an error on any number of
// ranks.
std::string launch_hint(const std::string& path, const std::vector<std::string>& overrides,
                        const train::Extensions& extensions, const std::string& include_root,
                        std::string_view command) {
  try {
    const int64_t ranks = fewest_ranks(load_recipe(config::load(path, overrides, include_root), extensions, 0));
    if (ranks == 1) return "";
    return base::cat("\nthe layout needs ", ranks,
                     " ranks or more: ", command == train_command ? launcher_to_train(ranks, 0) : launcher(ranks), " ",
                     program_name(), " ", command, " ", shell_word(path), " ...");
  } catch (const base::Error&) {  // the recipe has another error, which is reported elsewhere
    return "";
  }
}

}  // namespace

Recipe load_for_ranks(comm::World& world, const std::string& path, const std::vector<std::string>& overrides,
                      const Extensions& extensions, const std::string& include_root, std::string_view command) {
  const int64_t cores = find_cores(world.group()).rank_cores;
  const Recipe recipe = load_on_all_ranks(world, [&] {
    const auto warn = [&](const std::string& text) {
      if (world.rank() == 0) say(text);
    };
    try {
      Recipe r = load_to_train(config::load(path, overrides, include_root), extensions, world.size(), warn);
      require_datasets(r, path);
      complete(r, cores);
      return r;
    } catch (const base::Error& e) {
      const bool alone = e.code() == base::ExitCode::usage && world.size() == 1;
      const std::string hint = alone ? launch_hint(path, overrides, extensions, include_root, command) : "";
      if (hint.empty()) throw;
      throw base::Error(e.code(), base::cat(e.what(), hint));
    }
  });
  world.set_guards(guards_of(recipe.distributed));
  order_traffic(world, recipe.distributed);
  return recipe;
}

}  // namespace hexad::train
