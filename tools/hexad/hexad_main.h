// The program, as a function: a user's own main() hands it train::Extensions with their layers and orders.
#pragma once

#include "tools/train/recipe/extensions.h"

namespace hexad {

/// Runs the command line; returns the exit code of the process. Errors are printed here.
int hexad_main(int argc, char** argv, const train::Extensions& extensions = {});

}  // namespace hexad
