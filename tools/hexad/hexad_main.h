// The program as a function. A user's own main() passes it train::Extensions with additional layers and orders.
#pragma once

#include "tools/train/recipe/extensions.h"

namespace hexad {

/// Runs the command line and prints errors. Returns the exit code of the process.
int hexad_main(int argc, char** argv, const train::Extensions& extensions = {});

}  // namespace hexad
