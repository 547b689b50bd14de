// Readable names of kernels.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tools/gpu/profile/step_profile.h"

namespace hexad::gpu_profile {

/// Returns the kernel's name as written in the source. A name that is not mangled is returned unchanged. If the
/// demangler rejects a name, the result contains only the identifiers of this name.
std::string demangled(std::string_view name);

/// Returns the function name and the template arguments of a demangled name, without namespaces, cut at `width`
/// characters.
std::string shortened(std::string_view demangled, size_t width = 90);

/// Returns a short name for each of `operations`. Numbers repeated short names: "f<...> #2".
std::map<std::string_view, std::string> short_names(std::span<const Operation> operations);

}  // namespace hexad::gpu_profile
