#include "tools/hexad/onednn_product.h"

namespace hexad::app {

std::string onednn_description() { return "not found at build time (Debian: libdnnl-dev)"; }

bool onednn_multiplies(base::Dtype) { return false; }

kernels::Multiply onednn_product() { return nullptr; }

}  // namespace hexad::app
