// A KernelTable contains pointers to the kernels of one backend. Each member is a family of kernels, declared in one of
// the headers below. The reference, CPU and CUDA backends define each family, for example `const SwigluKernels
// SwigluKernels::of_cpu{...}`. entries() lists the kernels of a family, and families() lists the families. Tests and
// tables that wrap other tables iterate over these lists (framework/kernels/entries.h).
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

struct KernelTable {
  MatmulKernels matmul;
  GroupedMatmulKernels grouped_matmul;
  BiasKernels bias;
  RmsNormKernels rms_norm;
  SplitNormKernels split_norm;
  LayerNormKernels layer_norm;
  RotaryKernels rotary;
  AttentionKernels attention;
  SinkKernels sink;
  CausalConvKernels causal_conv;
  DeltaGateKernels delta_gate;
  DeltaRuleKernels delta_rule;
  SwigluKernels swiglu;
  GroupedSwigluKernels grouped_swiglu;
  ClampedSwigluKernels clamped_swiglu;
  GeluKernels gelu;
  RowGateKernels row_gate;
  RouterKernels router;
  SparseMixerKernels sparse_mixer;
  ExpertChoiceKernels expert_choice;
  RouterLossKernels router_loss;
  CapacityKernels capacity;
  SlotKernels slots;
  IndexKernels index;
  PermuteKernels permute;
  WireKernels wire;
  EmbeddingKernels embedding;
  CrossEntropyKernels cross_entropy;
  SplitSoftmaxKernels split_softmax;
  PointwiseKernels pointwise;
  OptimizerKernels optimizer;

  static constexpr auto families() {
    return std::tuple{Named{"matmul", &KernelTable::matmul},
                      Named{"grouped_matmul", &KernelTable::grouped_matmul},
                      Named{"bias", &KernelTable::bias},
                      Named{"rms_norm", &KernelTable::rms_norm},
                      Named{"split_norm", &KernelTable::split_norm},
                      Named{"layer_norm", &KernelTable::layer_norm},
                      Named{"rotary", &KernelTable::rotary},
                      Named{"attention", &KernelTable::attention},
                      Named{"sink", &KernelTable::sink},
                      Named{"causal_conv", &KernelTable::causal_conv},
                      Named{"delta_gate", &KernelTable::delta_gate},
                      Named{"delta_rule", &KernelTable::delta_rule},
                      Named{"swiglu", &KernelTable::swiglu},
                      Named{"grouped_swiglu", &KernelTable::grouped_swiglu},
                      Named{"clamped_swiglu", &KernelTable::clamped_swiglu},
                      Named{"gelu", &KernelTable::gelu},
                      Named{"row_gate", &KernelTable::row_gate},
                      Named{"router", &KernelTable::router},
                      Named{"sparse_mixer", &KernelTable::sparse_mixer},
                      Named{"expert_choice", &KernelTable::expert_choice},
                      Named{"router_loss", &KernelTable::router_loss},
                      Named{"capacity", &KernelTable::capacity},
                      Named{"slots", &KernelTable::slots},
                      Named{"index", &KernelTable::index},
                      Named{"permute", &KernelTable::permute},
                      Named{"wire", &KernelTable::wire},
                      Named{"embedding", &KernelTable::embedding},
                      Named{"cross_entropy", &KernelTable::cross_entropy},
                      Named{"split_softmax", &KernelTable::split_softmax},
                      Named{"pointwise", &KernelTable::pointwise},
                      Named{"optimizer", &KernelTable::optimizer}};
  }
};

extern const KernelTable reference_table;  // plain loops in double, which define the results of each kernel
/// Fast multithreaded kernels. Results do not depend on the number of threads. In dense kernels (dense_kernels.h), the
/// results of a row do not depend on other rows, except gradients of weights, which are sums over rows.
extern const KernelTable cpu_table;
extern const KernelTable emulated_table;  // the CPU's kernels, queued on the emulated device
/// Returns the table of the CUDA backend. Throws Error(usage) in a program that was built without CUDA.
const KernelTable& cuda_kernels();
/// Returns the table of the backend of `device`.
const KernelTable& kernels(const Device& device);
/// Returns the table for the device of `t`.
inline const KernelTable& kernels_of(const Tensor& t) { return kernels(t.device()); }

}  // namespace hexad::kernels
