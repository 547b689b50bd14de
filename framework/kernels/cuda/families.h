// The CUDA families, one folder or file each. Contracts: framework/kernels/kernel_table.h. A launch checks shapes on
// the host and returns; nothing here waits for the device or touches its memory from the host.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

extern const MatmulKernels matmul;
extern const GroupedMatmulKernels grouped_matmul;
extern const BiasKernels bias;
extern const RmsNormKernels rms_norm;
extern const LayerNormKernels layer_norm;
extern const RotaryKernels rotary;
extern const AttentionKernels attention;
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

/// The table of these, whose entries cuda_kernels() wraps (touching.h).
const KernelTable& launches();

}  // namespace hexad::kernels::cuda
