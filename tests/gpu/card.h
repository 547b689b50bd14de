// The GPU of a test program.
#pragma once

#include "framework/device/context.h"

namespace hexad::tests {

/// Returns the context of the GPU. All tests share this context, because libraries make handles and plans once per
/// context. New memory is filled with NaN.
device::DeviceContext& card();

}  // namespace hexad::tests
