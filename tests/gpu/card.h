// The GPU of a test program.
#pragma once

#include "framework/device/context.h"

namespace hexad::tests {

/// One for all tests, since libraries make handles and plans once a context. New memory is NaN.
device::DeviceContext& card();

}  // namespace hexad::tests
