// A profile as text and as JSON. Numbers are means over the steps of the profile, except the numbers of single steps
// and gaps.
#pragma once

#include <string>

#include "tools/gpu/profile/step_profile.h"

namespace hexad::gpu_profile {

/// Returns tables of kernels, of copies and fills, of gaps, and of streams if there are several.
std::string to_text(const Profile& profile);

/// Returns the tables of to_text() as JSON. Adds each step, the mangled names of kernels, up to 100 gaps, and up to 100
/// places (pairs of names around gaps). Times are in microseconds.
std::string to_json(const Profile& profile);

}  // namespace hexad::gpu_profile
