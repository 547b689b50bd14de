#include "framework/kernels/cpu/products/onednn.h"

namespace hexad::kernels::cpu::onednn {

bool available() { return false; }
bool preferred() { return false; }
std::string description() { return "built without oneDNN (Debian: libdnnl-dev)"; }

void multiply(const GemmTile&, PackCache*, uint64_t) { base::fail_invariant("[matmul] " + description()); }

}  // namespace hexad::kernels::cpu::onednn
