// The library that compares runs under parallel layouts with one rank, for use in other programs: target hexad::verify.
#pragma once

#include "tools/verify/session.h"
#include "tools/verify/tensor_comparison.h"
#include "tools/verify/training_run.h"
