// Request for one layout, as text for a child process: ranks, a blank, and the layout.
#pragma once

#include <string>

#include "framework/base/error.h"
#include "tools/verify/variant.h"

namespace hexad::verify {

inline std::string request_of(const Variant& v) { return base::cat(v.mesh.world(), " ", v.text()); }
inline Variant variant_of(const std::string& request) {
  const size_t blank = request.find(' ');
  return parse_layouts(request.substr(blank + 1), std::stoi(request.substr(0, blank))).front();
}

}  // namespace hexad::verify
