// Readable names of kernels.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tools/gpu/profile/step_profile.h"

namespace hexad::gpu_profile {

/// Returns the name as written in the source. Returns names that are not mangled unchanged. If the demangler rejects
/// the name, the result has only the identifiers in it.
std::string demangled(std::string_view name);

/// Returns the function of a demangled name, and its template arguments without namespaces, cut at `width` characters.
std::string shortened(std::string_view demangled, size_t width = 90);

/// Returns a short name for each of `operations`. Later duplicates are numbered: "f<...> #2".
std::map<std::string_view, std::string> short_names(std::span<const Operation> operations);

}  // namespace hexad::gpu_profile
