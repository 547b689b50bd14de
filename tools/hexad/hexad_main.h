// The program `hexad` as a function. A user's own main() can call it with additional layers, optimizers and data
// sources.
#pragma once

#include "tools/train/recipe/extensions.h"

namespace hexad {

/// Runs the command line and prints errors. Returns the exit code of the process.
int hexad_main(int argc, char** argv, const train::Extensions& extensions = {});

}  // namespace hexad
