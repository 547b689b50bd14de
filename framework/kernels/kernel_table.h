// A KernelTable contains pointers to the kernels of one backend. Each member is a family of kernels. Each of the
// headers below declares several families and ends with a struct of these families. The table inherits the structs. The
// reference, CPU and CUDA backends define each family, for example `const SwigluKernels SwigluKernels::of_cpu{...}`.
// entries() lists the kernels of a family, and families() lists the families. The tests, and tables that wrap other
// tables, iterate over these lists (framework/kernels/entries.h).
#pragma once

#include <tuple>

#include "framework/kernels/dense_kernels.h"
#include "framework/kernels/kernel.h"
#include "framework/kernels/kernel_operands.h"
#include "framework/kernels/routing_kernels.h"
#include "framework/kernels/sequence_kernels.h"
#include "framework/kernels/update_kernels.h"
#include "framework/kernels/vocabulary_kernels.h"
#include "framework/tensor/tensor.h"

namespace hexad::kernels {

struct KernelTable : DenseFamilies, SequenceFamilies, RoutingFamilies, VocabularyFamilies, UpdateFamilies {
  static constexpr auto families() {
    return std::tuple_cat(DenseFamilies::families(), SequenceFamilies::families(), RoutingFamilies::families(),
                          VocabularyFamilies::families(), UpdateFamilies::families());
  }
};

extern const KernelTable reference_table;  // plain loops in double, which define the results of each kernel
/// Fast multithreaded kernels. Results do not depend on the number of threads. In dense kernels (dense_kernels.h), the
/// results of a row do not depend on other rows. Gradients of weights are an exception: they are sums over rows.
extern const KernelTable cpu_table;
extern const KernelTable emulated_table;  // the CPU's kernels, queued on the emulated device
/// Returns the table of the CUDA backend. Throws Error(usage) in a program that was built without CUDA.
const KernelTable& cuda_kernels();
/// Returns the table of the backend of `device`.
const KernelTable& kernels(const Device& device);
/// Returns the table for the device of `t`.
inline const KernelTable& kernels_of(const Tensor& t) { return kernels(t.device()); }

}  // namespace hexad::kernels
