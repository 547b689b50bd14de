# Families of kernels that have one file in each of framework/kernels/{reference,cpu,cuda}. Attention and products are
# in separate folders, whose CMake files list them.
set(HEXAD_KERNEL_FAMILIES
  bias capacity causal_conv clamped_swiglu cross_entropy delta_gate delta_rule embedding expert_choice gelu grouped_swiglu index
  layer_norm optimizer permute pointwise rms_norm rotary router router_loss row_gate sink slots sparse_mixer split_norm
  split_softmax swiglu wire)
