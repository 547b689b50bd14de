#include "tools/plan/recipe_to_plan.h"

#include <array>
#include <string_view>
#include <utility>

#include "framework/config/problems.h"
#include "framework/config/typed_recipe.h"

namespace hexad::plan {

using train::Recipe;

namespace {

// Keys of a recipe's layout. The layouts of a plan have values for all these keys (PlanCandidate::settings()).
constexpr auto layout_keys = std::to_array<std::string_view>({
    "parallel.pp",
    "parallel.tp",
    "parallel.sp",
    "parallel.cp",
    "parallel.cp_kind",
    "parallel.cp_expansion",
    "parallel.order",
    "parallel.ep",
    "parallel.etp",
    "parallel.zero",
    "batch.micro",
    "schedule.pipeline.kind",
    "schedule.pipeline.virtual_stages",
    "schedule.pipeline.split",
});

void remove_key(config::Node& section, std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == path.npos)
    std::erase_if(section.children, [&](const config::Node& child) { return child.key == path; });
  else if (config::Node* child = section.find(path.substr(0, dot)))
    remove_key(*child, path.substr(dot + 1));
}

bool has_legal_values(const config::Document& document) {
  config::Problems problems;
  config::read<Recipe>(document, problems);
  return problems.list().empty();
}

}  // namespace

RecipeToPlan load_to_plan(config::Document document, const train::Extensions& extensions) {
  try {
    Recipe recipe = train::load_recipe(document, extensions, 0);
    return {.document = std::move(document), .recipe = std::move(recipe), .ignored = {}};
  } catch (const config::RecipeError& e) {
    if (!has_legal_values(document)) throw;
    for (const std::string_view key : layout_keys) remove_key(document.root, key);
    try {
      Recipe recipe = train::load_recipe(document, extensions, 0);
      return {.document = std::move(document), .recipe = std::move(recipe), .ignored = first_problem(e)};
    } catch (const config::RecipeError&) {  // the layout is not the only problem, so the first error is thrown
    }
    throw;
  }
}

std::string first_problem(const config::RecipeError& error) {
  const config::RecipeProblem& first = error.problems().front();
  return base::cat(first.source, first.line > 0 ? base::cat(":", first.line) : "", ": ", first.message);
}

}  // namespace hexad::plan
