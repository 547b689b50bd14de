#include "framework/base/error.h"

namespace hexad::base {

void fail_invariant(const std::string& message) { throw std::logic_error(message); }

}  // namespace hexad::base
