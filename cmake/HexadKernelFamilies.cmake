# Families of kernels that have one file in each of framework/kernels/{reference,cpu,cuda}. Attention and products are
# in separate folders, whose CMake files list them.
set(HEXAD_KERNEL_FAMILIES
  bias capacity clamped_swiglu cross_entropy embedding gelu index layer_norm optimizer permute pointwise rms_norm rotary router
  router_loss row_gate sink slots sparse_mixer split_norm split_softmax swiglu wire)
