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

// Throws the same error on all ranks. The error describes how the intentions of the ranks differ. Sends only the texts
// of rank 0 and of the lowest rank that differs from rank 0. Collective.
[[noreturn]] void refuse(const comm::ProcessGroup& group, const Intention& mine) {
  device::DeviceContext host;
  const std::string program_of_first = broadcast_text(mine.program, 0, group, host);
  const std::string other_program = mine.program != program_of_first ? mine.program : "";
  if (const auto other = first_text(other_program, 0, group, host))
    base::fail(ExitCode::usage, "rank ", other->rank, " does not run the program of rank 0: ", other->text,
               "; rank 0: ", program_of_first, "; start the same program on all nodes");
  const std::string problem = mine.code != ExitCode::done ? mine.text : "";
  if (const auto other = first_text(problem, static_cast<int>(mine.code), group, host))
    base::fail(static_cast<ExitCode>(other->code), "only some ranks have this problem, for example rank ", other->rank,
               ": ", other->text);
  const std::string text_of_first = broadcast_text(mine.text, 0, group, host);
  if (const auto other = first_text(mine.text != text_of_first ? mine.text : "", 0, group, host)) {
    std::string keys;
    for (const std::string& line : config::differences(read_recipe(text_of_first), read_recipe(other->text)))
      keys += "\n  " + line;
    base::fail(
        ExitCode::usage, "rank ", other->rank,
        " has a different recipe from rank 0; expected the same recipe and options on all ranks (rank 0 -> rank ",
        other->rank, "):", keys);
  }
  base::fail_invariant(
      "[agreement] the digests of the ranks differ, but their programs, problems and recipes are equal; expected equal "
      "digests");
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
  if (!same_on_all_ranks(world.group(), mine)) refuse(world.group(), mine);
  if (mistake) std::rethrow_exception(mistake);
  return std::move(*recipe);
}

}  // namespace hexad::train
