// Small training runs: recipes from text, ranks as threads, and comparisons of the results of runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/thread_group.h"
#include "tests/support/compare.h"
#include "tools/verify/test_documents.h"
#include "tools/verify/training_run.h"

namespace hexad::tests {

using base::ExitCode;
using train::Recipe;
using verify::TensorMap;
using verify::Trajectory;

/// Returns a recipe from YAML with "key.path=value" overrides. Throws Error(usage) if the recipe is invalid or, for
/// `world` > 0, cannot run on `world` ranks. Ignores the override schedule.worker_lanes=true if the tests do not run on
/// the CPU.
Recipe recipe_of(const std::string& yaml, const std::vector<std::string>& overrides = {}, int64_t world = 0);
/// Returns the recipe of a mixture-of-experts decoder of a few thousand parameters, in f64. The model has 2 layers,
/// hidden size 16, 4 experts, top_k 2, context 8 and vocabulary 31. A step has 8 sequences in micro-batches of 2.
/// Initial weights are large, so that experts matter.
/// `world` is as in recipe_of().
Recipe small_recipe(const std::vector<std::string>& overrides = {}, int64_t world = 0);

/// Runs `body` on n ranks that are threads. Each rank has one compute thread, because there may be more ranks than
/// cores.
void on_ranks(int n, const std::function<void(const comm::ProcessGroup& world)>& body,
              const comm::ThreadOptions& options = {});

/// Returns the results of `steps` steps on one rank.
Trajectory one_rank_trajectory(const Recipe& recipe, const data::Source& source, int steps);

/// Compares all tensors, and their names. `allowed` is the tolerance of difference() in tests/support/compare.h.
void expect_close(const TensorMap& expected, const TensorMap& actual, double allowed);
void expect_bitwise(const TensorMap& expected, const TensorMap& actual);
/// Compares losses, gradient norm, number of tokens, router statistics and gradients of every step, and the steps that
/// were skipped. Also compares the final weights and states.
void expect_close(const Trajectory& expected, const Trajectory& actual, double allowed);
void expect_bitwise(const Trajectory& expected, const Trajectory& actual);

/// Trains four steps with `second`. Trains two steps with `first`, saves, and continues the run for two steps with
/// `second`. Expects bitwise equal weights and optimizer states. Both recipes must have the same data. Collective.
void expect_resumed_bitwise(Recipe first, Recipe second, const comm::ProcessGroup& world);

/// Runs f, which must throw Error with `code`. Returns the message of the error.
std::string message_of(ExitCode code, const std::function<void()>& f);

}  // namespace hexad::tests
