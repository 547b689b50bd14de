// Reference kernels. Each kernel defines its operation by plain loops that compute in double.
#include "framework/kernels/entries.h"

namespace hexad::kernels {

const KernelTable reference_table = table_of([]<class Family>() { return Family::of_reference; });

}  // namespace hexad::kernels
