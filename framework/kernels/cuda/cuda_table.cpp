#include "framework/kernels/cuda/launches.h"
#include "framework/kernels/cuda/touching.h"
#include "framework/kernels/entries.h"

namespace hexad::kernels {

const KernelTable& cuda::launches() {
  static const KernelTable table = table_of([]<class Family>() { return Family::of_cuda; });
  return table;
}

const KernelTable& cuda_kernels() {
  static const KernelTable table = wrapped_table<cuda::Touching>();
  return table;
}

}  // namespace hexad::kernels
