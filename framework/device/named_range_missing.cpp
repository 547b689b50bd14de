// NamedRange for builds without the profiler library.
#include "framework/device/named_range.h"

namespace hexad::device {

NamedRange::NamedRange(const std::string&) {}
NamedRange::~NamedRange() = default;

}  // namespace hexad::device
