// Names of kernels for people.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tools/gpu/profile/step_profile.h"

namespace hexad::gpu_profile {

/// Returns the name as the source spells it. A name that is not mangled does not change. If the demangler refuses the
/// name, only its identifiers remain.
std::string demangled(std::string_view name);

/// Returns the function of a demangled name and its template arguments without namespaces, cut at `width` characters.
std::string shortened(std::string_view demangled, size_t width = 90);

/// Returns short names of `operations`. If two names would be equal, later ones are numbered: "f<...> #2".
std::map<std::string_view, std::string> short_names(std::span<const Operation> operations);

}  // namespace hexad::gpu_profile
