#include "framework/device/named_range.h"

#include <nvtx3/nvToolsExt.h>

namespace hexad::device {

NamedRange::NamedRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
NamedRange::~NamedRange() { nvtxRangePop(); }

}  // namespace hexad::device
