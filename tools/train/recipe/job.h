// Reads a job's recipe with the same result on all ranks, and configures the communication between ranks accordingly.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

inline constexpr std::string_view train_command = "train";

/// Reads the recipe on all ranks of `world`, and completes it for the rank's machine. Sets the guards, traffic limits
/// and priorities of `world` from the recipe. Included files are in the recipe's folder or in `include_root` (may be
/// empty). Throws the same Error on all ranks: Error(usage) with file and line of every problem of the recipe, or
/// Error(data) if a dataset or its tokenizer cannot be read. If a single process reads a recipe whose layout needs more
/// ranks, the message contains a command line. This line starts all ranks of `command`, such as "bench predict".
/// Collective.
Recipe load_for_ranks(comm::World& world, const std::string& path, const std::vector<std::string>& overrides,
                      const Extensions& extensions, const std::string& include_root = "",
                      std::string_view command = train_command);

/// Calls `load` on every rank and compares the resulting recipes, and the programs themselves. The number of threads
/// may differ, because nodes may have different numbers of cores. Throws the same error on all ranks:
/// - the unchanged error of `load` if `load` throws this error on all ranks
/// - if `load` throws on only some ranks or throws different errors: the error of the lowest failed rank, with this
///   rank's number and the error's exit code
/// - Error(usage) if programs or recipes differ; names the first rank that differs from rank 0, and both programs or
///   the differing keys
///
/// Collective.
Recipe load_on_all_ranks(const comm::World& world, const std::function<Recipe()>& load);

}  // namespace hexad::train
