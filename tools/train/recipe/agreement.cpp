#include "tools/train/recipe/job.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "framework/base/failure.h"
#include "framework/data/digest.h"
#include "parallel/comm/text_collectives.h"
#include "tools/train/process/program_identity.h"

namespace hexad::train {

using namespace base;

namespace {

// Program and recipe with which one rank intends to run.
struct Intention {
  std::string program;
  ExitCode code = ExitCode::done;
  std::string text{};  // text of the loaded recipe, or of the error
};

std::string recipe_text(Recipe recipe) {
  recipe.train.threads.reset();
  return config::write(recipe);
}

std::vector<Intention> all_gather(const comm::ProcessGroup& group, const Intention& mine) {
  device::DeviceContext host;
  const auto programs = gather_texts(mine.program, group, host), texts = gather_texts(mine.text, group, host);
  const int64_t code = static_cast<int64_t>(mine.code);
  const auto codes = group.all_gather_values(std::span(&code, 1), host);
  std::vector<Intention> all;
  for (size_t r = 0; r < texts.size(); ++r) all.push_back({programs[r], static_cast<ExitCode>(codes[r]), texts[r]});
  return all;
}

bool same_on_all_ranks(const comm::ProcessGroup& group, const Intention& mine) {
  device::DeviceContext host;
  const auto digest = [](const std::string& text) { return static_cast<int64_t>(data::digest_of(text).low); };
  const int64_t values[] = {digest(mine.program), static_cast<int64_t>(mine.code), digest(mine.text)};
  return group.same_on_all(values, host);
}

Recipe read_recipe(const std::string& text) {
  config::Problems problems;
  return config::read<Recipe>(config::parse(text, "recipe"), problems);
}

[[noreturn]] void refuse(const std::vector<Intention>& all) {
  const Intention& first = all.front();
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r].program != first.program)
      base::fail(ExitCode::usage, "rank ", r, " does not run the program of rank 0: ", all[r].program,
                 "; rank 0: ", first.program);
  for (size_t r = 0; r < all.size(); ++r)
    if (all[r].code != ExitCode::done)
      base::fail(all[r].code, "only some ranks have this problem, for example rank ", r, ": ", all[r].text);
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r].text == first.text) continue;
    std::string keys;
    for (const std::string& line : config::differences(read_recipe(first.text), read_recipe(all[r].text)))
      keys += "\n  " + line;
    base::fail(ExitCode::usage, "rank ", r, " has a different recipe from rank 0 (rank 0 -> rank ", r, "):", keys);
  }
  base::fail_invariant("[agreement] digests differ but texts do not");
}

}  // namespace

Recipe load_on_all_ranks(const comm::World& world, const std::function<Recipe()>& load) {
  if (world.size() == 1) return load();
  const auto phase = world.file_work().announce("reading its program and recipe");
  Intention mine{.program = program_identity(world.file_work())};
  std::optional<Recipe> recipe;
  std::exception_ptr mistake;
  try {
    recipe = load();
    mine.text = recipe_text(*recipe);
  } catch (const std::exception& e) {
    mistake = std::current_exception();
    Failure failure = failure_of(e);
    mine.code = failure.code, mine.text = std::move(failure.text);
  }
  if (!same_on_all_ranks(world.group(), mine)) refuse(all_gather(world.group(), mine));
  if (mistake) std::rethrow_exception(mistake);
  return std::move(*recipe);
}

}  // namespace hexad::train
