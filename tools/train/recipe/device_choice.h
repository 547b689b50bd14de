// Device of a recipe: its override from outside the recipe, and a check of the keys that it does not support.
#pragma once

#include <optional>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Sets the recipe's device to one that was chosen outside the recipe: by HEXAD_DEVICE, by `verify --device`, or for
/// the oracle. If the kind changes, resets values that only the recipe's own device supports to auto.
void replace_device(Recipe& r, device::DeviceKind device);

/// Returns the device that HEXAD_DEVICE names; none if the variable is unset or empty. Adds a problem if its value is
/// not a device.
std::optional<device::DeviceKind> device_of_environment(config::Problems& problems);

/// Adds a problem for every setting that the recipe's device does not support and that would fail in the middle of a
/// step.
void check_device(const Recipe& r, config::Problems& problems);

}  // namespace hexad::train
