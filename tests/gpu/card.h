// The GPU of a test program.
#pragma once

#include "framework/device/context.h"

namespace hexad::tests {

/// Returns a context of the GPU. Tests share it, because libraries make their handles and plans once per context. New
/// memory is NaN.
device::DeviceContext& card();

}  // namespace hexad::tests
