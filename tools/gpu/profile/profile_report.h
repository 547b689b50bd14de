// A profile as text and as JSON. Numbers are means over the steps of the profile.
#pragma once

#include <string>

#include "tools/gpu/profile/step_profile.h"

namespace hexad::gpu_profile {

/// Returns tables of kernels, copies and gaps, and a table of streams if there are several.
std::string to_text(const Profile& profile);

/// Returns the tables of to_text() as JSON. Adds each step, the mangled names of kernels, up to 100 gaps, and up to 100
/// places (pairs of names around gaps). Times are in microseconds.
std::string to_json(const Profile& profile);

}  // namespace hexad::gpu_profile
