// The CPU families, one file each, beside products/ and attention.h. Contracts: framework/kernels/kernel_table.h.
// Results depend neither on the number of threads nor, for a row, on other rows.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

extern const BiasKernels bias;
extern const RmsNormKernels rms_norm;
extern const LayerNormKernels layer_norm;
extern const RotaryKernels rotary;
extern const SwigluKernels swiglu;
extern const GeluKernels gelu;
extern const RouterKernels router;
extern const RouterLossKernels router_loss;
extern const CapacityKernels capacity;
extern const SlotKernels slots;
extern const IndexKernels indices;
extern const PermuteKernels permute;
extern const WireKernels wire;
extern const EmbeddingKernels embedding;
extern const CrossEntropyKernels cross_entropy;
extern const SplitSoftmaxKernels split_softmax;
extern const PointwiseKernels pointwise;
extern const OptimizerKernels optimizer;

/// All families, with this attention: a program that defines its own cpu_table may note what that is asked for.
KernelTable make_table(const AttentionKernels& attention);

}  // namespace hexad::kernels::cpu
