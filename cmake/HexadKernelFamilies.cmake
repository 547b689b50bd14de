# Families of kernels with one file in each of framework/kernels/{reference,cpu,cuda}. Attention and products, which have
# folders of their own, are listed where they are built.
set(HEXAD_KERNEL_FAMILIES
  bias capacity cross_entropy embedding gelu index layer_norm optimizer permute pointwise rms_norm rotary router router_loss
  row_gate slots split_norm split_softmax swiglu wire)
