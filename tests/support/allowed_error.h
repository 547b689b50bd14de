// Allowed difference of two computations of the same values, by the names that tests use.
#pragma once

#include "framework/base/tolerance.h"

namespace hexad::tests {

using base::step_tolerance;
using base::tolerance;
using base::unit_roundoff;

}  // namespace hexad::tests
