// Reference kernels. Each defines its operation by plain loops, over doubles wherever numbers are computed.
#include "framework/kernels/entries.h"

namespace hexad::kernels {

const KernelTable reference_table = table_of([]<class Family>() { return Family::of_reference; });

}  // namespace hexad::kernels
