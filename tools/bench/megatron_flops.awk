# FLOPs of a training step for each token, by the formula that Megatron-LM's TFLOP/s and MFU refer to:
# num_floating_point_operations() in megatron/training/training.py.
#   - Matrix products: 6 for each weight that is applied to the token. Includes the head, shared experts and a
#     prediction block's projection, but not the router. The vocabulary is padded to a multiple of 128 * tp.
#   - Causal attention: half of the pairs of a sequence's tokens (commit 8873b55d, 6 March 2025; before, all pairs).
#   - Latent attention: its projections and norms (read at commit d98e8a64, 22 August 2026).
# The rows of published_models.tsv have the shapes of the models. Models with kv_rank 0 have no latent attention.

# Stores the current line, the shape of a model. Line 1 of the file has the names of the columns.
function read_shape(    i) {
  if (FNR == 1)
    for (i = 1; i <= NF; i++) column[i] = $i
  else
    for (i = 2; i <= NF; i++) shape[$1, column[i]] = $i
}

# megatron_flops(model, context, tp): returns the FLOPs of forward and backward for each token of a sequence of
# `context` tokens.
function megatron_flops(model, context, tp,    hidden, heads, size, extra, blocks, dense, attention, pairs, mlps, vocab,
    products) {
  hidden = shape[model, "hidden"]; heads = shape[model, "heads"]; size = shape[model, "head_size"]
  extra = shape[model, "prediction_blocks"]
  blocks = shape[model, "layers"] + extra
  dense = shape[model, "dense_layers"]
  if (shape[model, "kv_rank"] > 0) {
    attention = shape[model, "q_rank"] * (hidden + heads * (size + shape[model, "rope_size"]) + 1)
    attention += shape[model, "kv_rank"] * (hidden + heads * (size + shape[model, "value_size"]) + 1)
    attention += hidden * (shape[model, "rope_size"] + heads * shape[model, "value_size"])
    pairs = heads * (size + shape[model, "rope_size"] + shape[model, "value_size"])
  } else {
    attention = 2 * hidden * size * (heads + shape[model, "kv_heads"])
    pairs = 2 * heads * size
  }
  mlps = dense * shape[model, "mlp_hidden"]
  mlps += (blocks - dense) * (shape[model, "top_k"] * shape[model, "expert_hidden"] + shape[model, "shared_hidden"])
  vocab = 128 * tp * int((shape[model, "vocab"] + 128 * tp - 1) / (128 * tp))
  products = blocks * attention + 3 * hidden * mlps + (1 + extra) * hidden * vocab
  products += extra * (3 * hidden + 2 * hidden * hidden)
  return 6 * (products + blocks * pairs * context / 2)
}
