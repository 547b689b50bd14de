#include "framework/kernels/entries.h"

namespace hexad::kernels {

const KernelTable cpu_table = table_of([]<class Family>() { return Family::of_cpu; });

}  // namespace hexad::kernels
