// Header of the library hexad::verify, for other programs. The library compares runs in parallel layouts with a run on
// one rank.
#pragma once

#include "tools/verify/session.h"
#include "tools/verify/tensor_comparison.h"
#include "tools/verify/training_run.h"
