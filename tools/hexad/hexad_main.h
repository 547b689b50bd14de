// The program, as a function: a user's own main() hands it a registry with their layers and orders.
#pragma once

#include "layers/feed_forward.h"

namespace hexad {

/// Runs the command line; returns the exit code of the process. Errors are printed here.
int hexad_main(int argc, char** argv, const layers::Registry& registry = {});

}  // namespace hexad
