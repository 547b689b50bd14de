// Allowed distance between two ways of computing the same, by the names tests use.
#pragma once

#include "framework/base/tolerance.h"

namespace hexad::tests {

using base::step_tolerance;
using base::tolerance;
using base::unit_roundoff;

}  // namespace hexad::tests
