// Reference kernels. Each kernel is the definition of its op in plain loops over doubles.
#include "framework/kernels/entries.h"

namespace hexad::kernels {

const KernelTable reference_table = table_of([]<class Family>() { return Family::of_reference; });

}  // namespace hexad::kernels
