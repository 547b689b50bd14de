#include "framework/kernels/meta/meta_table.h"

#include "framework/kernels/cuda/cuda_properties.h"
#include "framework/kernels/entries.h"
#include "framework/kernels/meta/meta_kernels.h"

namespace hexad::kernels {
namespace {

using meta::Nothing;

KernelTable table_of_cpu() {
  KernelTable table = wrapped_table<Nothing>();
  table.matmul = meta::matmul;
  table.grouped_matmul = meta::grouped_matmul;
  table.grouped_swiglu = meta::grouped_swiglu;
  table.embedding = meta::embedding;
  table.permute.scatter = meta::scatter;
  table.pointwise.copy = meta::copy;
  table.optimizer.sgd = meta::sgd;
  table.optimizer.squared_norm = meta::squared_norm;
  table.attention.forward = meta::attention_forward;
  table.attention.backward = meta::attention_backward;
  table.delta_rule = meta::delta_rule;
  table.router.forward = meta::router_forward;
  table.expert_choice.choose = meta::choose_tokens;
  table.capacity = meta::capacity;
  table.slots = meta::slots;
  return table;
}

KernelTable table_of_cuda() {
  KernelTable table = table_of_cpu();
  table.rms_norm.partials = cuda::partials;
  table.cross_entropy.block_rows = cuda::block_rows;
  return table;
}

}  // namespace

const KernelTable& meta_kernels(device::DeviceKind stands_for) {
  static const KernelTable of_cpu = table_of_cpu(), of_cuda = table_of_cuda();
  // The emulated device uses the CPU's kernels.
  return stands_for == device::DeviceKind::cuda ? of_cuda : of_cpu;
}

}  // namespace hexad::kernels
