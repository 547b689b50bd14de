// Whether mpirun leaves a run the time to save when it ends the job, as at Ctrl-C.
#pragma once

#include <string>

#include "tools/train/recipe.h"

namespace hexad::plan {

/// Whole seconds between mpirun's SIGTERM and its SIGKILL that suffice for a save of about `seconds` after a short
/// step.
int64_t advised_patience(double seconds);

/// What starts a training of `ranks`, up to the program's name: on mpirun's command line with time for a save of about
/// `save_seconds`.
std::string launcher_to_train(int64_t ranks, double save_seconds);
/// Explains how a run that this launcher ends gets the time to save.
std::string explain_launcher();

/// A warning if the mpirun of this run leaves less time than an estimated save takes; else
/// empty. May write into the run's folder to measure it, as estimate_write() does.
std::string warn_of_short_patience(const train::Recipe& recipe, const train::Extensions& extensions);

}  // namespace hexad::plan
