// Opens saved runs on any number of ranks, with a layout in which these ranks can use the model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/train/checkpoint/run_directory.h"

namespace hexad::train {

/// Use of a trained model. Both avoid copies of experts. Generation divides the work for a token over the ranks, and
/// evaluation gives the ranks different sequences.
enum class TrainedUse : uint8_t { evaluation, generation };

struct RunOnRanks {
  SavedRun run;
  std::string layout;  // text for the user: "tp 2 x ... (the run's layout)"; empty on a single rank
};

/// Arguments of open_run(), and the ranks.
struct RunRequest {
  const std::string& path;
  const std::vector<std::string>& overrides;
  const std::string& step;
  int64_t world = 1;
};

/// Returns candidates of layouts for `world` ranks, best first, as overrides of `parallel`. They may be illegal for the
/// recipe's model.
std::vector<std::vector<std::string>> layout_candidates(const Recipe& recipe, int64_t world, TrainedUse use);

/// Opens a run like open_run(). A single rank holds the whole model, unless overrides name another layout. Several
/// ranks use the layout of the overrides if they contain keys of `parallel`. Otherwise they use the run's own layout if
/// it is possible on these ranks and, for generation, needs all of them. Otherwise they use the first candidate that is
/// legal and that `fits` accepts (a collective check of memory), or the first legal one if none fits. Throws
/// Error(usage) like open_run(), or if no layout is legal.
RunOnRanks open_on_ranks(const RunRequest& request, TrainedUse use, const Extensions& extensions,
                         const std::function<bool(const Recipe&)>& fits, const base::FileWork& work = {});

}  // namespace hexad::train
