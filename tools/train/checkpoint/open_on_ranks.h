// Opens saved runs on any number of ranks, in a layout that is possible on these ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/train/checkpoint/run_directory.h"

namespace hexad::train {

/// Purpose for which a trained model is opened; determines which layouts are preferred. Both purposes avoid copies of
/// experts. Generation divides the work for each token among ranks. Evaluation gives the ranks different sequences.
enum class TrainedUse : uint8_t { evaluation, generation };

struct RunOnRanks {
  SavedRun run;
  std::string layout;  // text for the user: "pp 1 x dp 2 x ... (the run's layout)"; empty on a single rank
};

/// Arguments of open_run(), and the number of ranks.
struct RunRequest {
  const std::string& path;
  const std::vector<std::string>& overrides;
  const std::string& step;
  int64_t world = 1;
};

/// Returns candidate layouts for `world` ranks, best first, each as overrides of `parallel`. Some candidates may be
/// illegal for the recipe's model.
std::vector<std::vector<std::string>> layout_candidates(const Recipe& recipe, int64_t world, TrainedUse use);

/// Opens a run like open_run(), in the first of these layouts that applies:
/// 1. the layout of the overrides, if they contain keys of `parallel`
/// 2. on a single rank, the layout of one rank
/// 3. the run's own layout, if it is possible on these ranks and, for generation, needs all of them
/// 4. the first legal candidate of layout_candidates() that `fits` accepts; `fits` is a collective check of memory
/// 5. the first legal candidate
///
/// Throws like open_run(), and Error(usage) if no layout is legal.
RunOnRanks open_on_ranks(const RunRequest& request, TrainedUse use, const Extensions& extensions,
                         const std::function<bool(const Recipe&)>& fits, const base::FileWork& work = {});

}  // namespace hexad::train
