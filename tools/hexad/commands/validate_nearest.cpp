#include "tools/hexad/commands/validate_nearest.h"

#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "framework/base/counted.h"
#include "tools/plan/memory_report.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/renamed_keys.h"

namespace hexad::app {

namespace {

std::string numbers_in(const plan::RankRange& range) {
  if (range.fewest == range.most) return base::counted(range.most, "rank");
  if (range.fewest == 1) return base::cat(range.most, " ranks or fewer");
  return base::cat(range.fewest, " to ", range.most, " ranks");
}

}  // namespace

base::ExitCode print_nearest_layout(const std::string& path, config::Document document, plan::RankRange range,
                                    const train::Extensions& extensions) {
  for (const std::string& line : train::rename_keys(document)) train::say(line);
  train::Recipe recipe = train::load_recipe(document, extensions, 0);
  if (!recipe.stages.empty())
    base::fail(base::ExitCode::usage, path, ": --nearest is given, but the recipe has ",
               base::counted(std::ssize(recipe.stages), "stage"),
               ", each with its own layout; expected a recipe without stages");
  train::complete(recipe, 1);
  const auto fits = [&](const train::Recipe& candidate, int64_t world) {
    return candidate.memory.limit() == 0 || plan::MemoryReport(candidate, extensions, world).problem().empty();
  };
  const auto nearest = plan::nearest_layout(document, recipe, extensions, range, fits);
  if (!nearest)
    base::fail(base::ExitCode::usage, path, ": no layout of ", numbers_in(range), " is legal",
               recipe.memory.limit() > 0 ? " and fits memory.limit_bytes" : "",
               "; `hexad plan` lists the rules that refuse layouts");
  fmt::print("ranks {}\nrun_dir {}\nsteps {}\n", nearest->ranks, recipe.run.dir, recipe.train.steps);
  for (const auto& [key, value] : nearest->changes) fmt::print("{}={}\n", key, value);
  return base::ExitCode::done;
}

}  // namespace hexad::app
