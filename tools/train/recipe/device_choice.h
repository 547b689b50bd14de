// Overrides the device of a recipe, and checks that the device supports the recipe's other settings.
#pragma once

#include <optional>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Replaces the recipe's device. Used for HEXAD_DEVICE, for `hexad verify --device`, and for the oracle (reference run
/// on one rank) of `hexad verify`. If the device changes, sets to auto the keys whose values only the previous device
/// supports.
void replace_device(Recipe& r, device::DeviceKind device);

/// Returns the device that HEXAD_DEVICE names; none if the variable is unset or empty. Adds a problem if its value is
/// not a device.
std::optional<device::DeviceKind> device_of_environment(config::Problems& problems);

/// Adds a problem for every setting that the recipe's device or its collectives do not support. Otherwise, such
/// settings would fail only in the middle of a step.
void check_device(const Recipe& r, config::Problems& problems);

}  // namespace hexad::train
