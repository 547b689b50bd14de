#include "parallel/cp/attention_blocks.h"

#include <limits>

namespace hexad::cp {

using namespace base;
using namespace kernels;
namespace {

Tensor half_of(const Tensor& rows, int half, const ContextSplit& split) {
  return rows.slice(0, half * split.half_rows(), (half + 1) * split.half_rows());
}

// Arguments of one call of the attention kernel.
struct Block {
  AttentionShape shape;
  Tensor first, last;
};

// Converts the bounds (`first` or `last`) of a half of the queries to positions relative to a piece of keys. The
// results may be outside the piece.
Tensor relative(const Tensor& bounds, const BlockPair& pair, int64_t key_begin, const ContextSplit& split,
                Stream& stream) {
  if (!bounds.defined()) return {};
  const Tensor from = half_of(bounds, pair.query_half, split), to = Tensor::like(from);
  kernels::kernels(to.device()).index.shift(stream, to, from, -key_begin);
  return to;
}

Block block_of(const BlockPair& pair, int owner, const ContextAttention& c, Stream& stream) {
  const int64_t length = c.split.piece_length(), key_begin = c.split.piece_begin(owner, pair.key_half);
  const int64_t distance = c.split.piece_begin(c.split.rank, pair.query_half) - key_begin;
  // Passes a window to the kernel only if the window hides a key of the block, because kernels are faster without a
  // window.
  const bool hides = c.window > 0 && distance + length > c.window;
  return {{.sequences = c.split.sequences,
           .queries = length,
           .keys = length,
           .scale = c.scale,
           .causal = pair.diagonal,
           .query_offset = hides ? distance : 0,
           .deterministic = c.deterministic,
           .window = hides ? c.window : 0,
           .value_size = c.value_size},
          relative(c.first, pair, key_begin, c.split, stream),
          relative(c.last, pair, key_begin, c.split, stream)};
}

}  // namespace

std::vector<BlockPair> visible_pairs(const ContextSplit& split, int owner, bool causal, int64_t window) {
  std::vector<BlockPair> pairs;
  for (int q = 0; q < split.halves(); ++q)
    for (int k = 0; k < split.halves(); ++k) {
      const int queries = split.piece(split.rank, q), keys = split.piece(owner, k);
      const int64_t least =
          (queries - keys - 1) * split.piece_length() + 1;  // smallest distance between a query and a key
      if (window > 0 && least >= window) continue;
      if (!causal || keys <= queries) pairs.push_back({q, k, causal && keys == queries});
    }
  return pairs;
}

RunningAttention::RunningAttention(const Tensor& q, Stream& stream)
    : sum_(Tensor::empty(q.shape(), accumulator_dtype(q.dtype()), q.device())),
      log_sum_exp_(Tensor::empty({q.dim(0), q.dim(1)}, accumulator_dtype(q.dtype()), q.device())) {
  const auto& fill = kernels::kernels(q.device()).pointwise.fill;
  fill(stream, sum_, 0);
  fill(stream, log_sum_exp_, -std::numeric_limits<double>::infinity());
}

void RunningAttention::add(const Tensor& q, const Tensor& k, const Tensor& v, int owner, const ContextAttention& c,
                           Stream& stream) {
  const auto& kernel = kernels::kernels(q.device()).attention;
  for (const BlockPair& pair : visible_pairs(c.split, owner, c.causal, c.window)) {
    const Block block = block_of(pair, owner, c, stream);
    const Tensor queries = half_of(q, pair.query_half, c.split);
    const Tensor sum = half_of(sum_, pair.query_half, c.split);
    const Tensor log_sum_exp = half_of(log_sum_exp_, pair.query_half, c.split);
    const Tensor out = Tensor::like(queries), block_log_sum_exp = Tensor::like(log_sum_exp);
    kernel.forward(stream, out, block_log_sum_exp, queries, half_of(k, pair.key_half, c.split),
                   half_of(v, pair.key_half, c.split), block.first, block.last, block.shape);
    kernel.merge(stream, sum, log_sum_exp, out, block_log_sum_exp);
  }
}

void add_gradients(const QueryGradient& g, const Tensor& dk, const Tensor& dv, const Tensor& k, const Tensor& v,
                   int owner, const ContextAttention& c, Stream& stream) {
  const auto& table = kernels::kernels(g.q.device());
  for (const BlockPair& pair : visible_pairs(c.split, owner, c.causal, c.window)) {
    const auto queries = [&](const Tensor& t) { return half_of(t, pair.query_half, c.split); };
    const auto keys = [&](const Tensor& t) { return half_of(t, pair.key_half, c.split); };
    const Block block = block_of(pair, owner, c, stream);
    const Tensor dq_part = Tensor::like(queries(g.q)), dk_part = Tensor::like(keys(k)), dv_part = Tensor::like(dk_part);
    table.attention.backward(stream, {dq_part, dk_part, dv_part}, queries(g.dout),
                             {.out = queries(g.out),
                              .log_sum_exp = queries(g.log_sum_exp),
                              .q = queries(g.q),
                              .k = keys(k),
                              .v = keys(v),
                              .first = block.first,
                              .last = block.last},
                             block.shape);
    table.pointwise.axpy(stream, queries(g.dq), 1, dq_part);
    table.pointwise.axpy(stream, keys(dk), 1, dk_part);
    table.pointwise.axpy(stream, keys(dv), 1, dv_part);
  }
}

}  // namespace hexad::cp
