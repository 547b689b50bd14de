// The time that a save takes, and how a run gets it when its launcher ends the job, as at Ctrl-C.
#pragma once

#include <string>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// Estimated seconds of a save; 0 if unknown. May write into the run's folder to measure it, as estimate_write() does.
double estimate_save(const train::Recipe& recipe, const train::Extensions& extensions);

/// Command line before the program's name that starts a training on `ranks`. mpirun leaves time for a save of about
/// `save_seconds` there.
std::string launcher_to_train(int64_t ranks, double save_seconds);
/// One line that explains how a run which this launcher ends gets the time to save.
std::string explain_launcher();

}  // namespace hexad::plan
