#include "framework/kernels/cpu/blockwise_attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "framework/kernels/cpu/attention_tile.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/scratch.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

HeadRows head_rows(std::string_view name, const Tensor& t, Dtype dtype, int64_t tokens, int64_t heads, int64_t size) {
  require(t.shape() == Shape({tokens, heads, size}) && t.dtype() == dtype, "[attention] ", name, " is ", t.dtype(), " ",
          t.shape(), "; expected ", dtype, " ", Shape({tokens, heads, size}));
  require(size <= 1 || t.strides()[2] == 1, "[attention] ", name, " of shape ", t.shape(), " has strides ", t.strides(),
          "; expected the last dimension to be contiguous");
  return {t.raw(), t.strides()[0], t.strides()[1]};
}

const int32_t* bounds(std::string_view name, const Tensor& t, const AttentionShape& shape) {
  check_bounds(name, t, shape);
  return t.defined() ? t.data<int32_t>() : nullptr;
}

AttentionProblem problem_of(const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                            const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& s) {
  require(q.rank() == 3 && k.rank() == 3 && is_floating(q.dtype()), "[attention] q is ", q.dtype(), " ", q.shape(),
          " and k ", k.shape(), "; expected a floating dtype and shapes [tokens, heads, size]");
  const int64_t heads = q.dim(1), key_heads = k.dim(1), size = q.dim(2);
  const int64_t tokens = s.sequences * s.queries, key_tokens = s.sequences * s.keys;
  require(
      key_heads > 0 && heads % key_heads == 0, "[attention] ", heads, " query heads for ", key_heads,
      " key heads; expected at least one key head, and a number of query heads divisible by the number of key heads");
  require(log_sum_exp.dtype() == accumulator_dtype(q.dtype()) && log_sum_exp.numel() == tokens * heads &&
              log_sum_exp.contiguous(),
          "[attention] log_sum_exp is ", log_sum_exp.dtype(), " ", log_sum_exp.shape(), " with strides ",
          log_sum_exp.strides(), "; expected contiguous ", accumulator_dtype(q.dtype()), " ", Shape({tokens, heads}));
  AttentionProblem p{};
  p.dtype = q.dtype();
  p.queries = s.queries, p.keys = s.keys, p.heads = heads, p.key_heads = key_heads, p.size = size;
  p.value_size = s.value_size > 0 ? std::min(s.value_size, size) : size;
  p.scale = s.scale, p.causal = s.causal, p.query_offset = s.query_offset, p.window = s.window;
  p.q = head_rows("q", q, p.dtype, tokens, heads, size);
  p.k = head_rows("k", k, p.dtype, key_tokens, key_heads, size);
  p.v = head_rows("v", v, p.dtype, key_tokens, key_heads, size);
  p.out = head_rows("out", out, p.dtype, tokens, heads, size);
  p.log_sum_exp = log_sum_exp.raw();
  p.first = bounds("first", first, s), p.last = bounds("last", last, s);
  return p;
}

/// Returns an estimate of the multiply-adds of a forward pass without documents. With a causal mask, each query is
/// assumed to see half of the keys. With a window, each query is assumed to see at most the keys of the window.
double multiply_adds(const AttentionProblem& p, int64_t sequences) {
  const double seen = static_cast<double>(p.keys) * (p.causal ? 1 : 2);
  return static_cast<double>(sequences * p.heads * p.queries) * static_cast<double>(p.size) *
         (p.window > 0 ? std::min(seen, 2.0 * static_cast<double>(p.window)) : seen);
}

/// Runs one task for each sequence, key head and piece of at most `piece` queries. A thread that has finished a task
/// takes the next task.
template <class Run>
void for_each_task(const AttentionProblem& p, int64_t sequences, int64_t piece, int64_t scratch_bytes, const Run& run) {
  std::vector<AttentionTask> tasks;
  for (int64_t b = 0; b < sequences; ++b)
    for (int64_t g = 0; g < p.key_heads; ++g)
      for (int64_t i = 0; i < p.queries; i += piece) tasks.push_back({b, g, i, std::min(i + piece, p.queries)});
  std::atomic<size_t> next = 0;
  const auto threads = std::min<int64_t>(threads_for(multiply_adds(p, sequences)), static_cast<int64_t>(tasks.size()));
  parallel_for(threads, 1, [&](int64_t, int64_t) {
    for (size_t i = next++; i < tasks.size(); i = next++) run(p, tasks[i], scratch(Scratch::tile, scratch_bytes));
  });
}

}  // namespace

int64_t attention_scratch(const AttentionProblem& p, bool backward) {
  constexpr int64_t panel = 32, strip = 14,
                    span = attention_keys + panel;  // sizes for the instruction set with the larger panels
  const int64_t padded = round_up(p.size, panel), keys = round_up(p.keys, panel) * padded;
  const int64_t left = round_up(p.size, attention_keys) / attention_keys * strip * span;
  const int64_t block = attention_queries * (3 * padded + 2 * span);
  const int64_t elements =
      backward ? 5 * keys + 2 * strip * padded + block + 2 * left : 2 * keys + strip * (span + padded) + left;
  return elements * size_of(accumulator_dtype(p.dtype)) + 16 * 64;
}

void attention_forward(Stream& stream, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape) {
  const AttentionProblem p = problem_of(out, log_sum_exp, q, k, v, first, last, shape);
  // Every piece copies the keys that its queries see. Therefore the number of pieces is limited: about four tasks per
  // thread, and at most 1 + queries / 256 pieces for each sequence and key head.
  const int64_t heads = shape.sequences * p.key_heads, wanted = 4 * threads_for(multiply_adds(p, shape.sequences));
  const int64_t pieces = heads > 0 ? std::clamp<int64_t>((wanted + heads - 1) / heads, 1, 1 + p.queries / 256) : 1;
  const int64_t piece = std::max<int64_t>(round_up(p.queries, pieces) / pieces, 1);
  stream.run([=, keep = std::array{out, log_sum_exp, q, k, v, first, last}] {
    for_each_task(p, shape.sequences, piece, attention_scratch(p, false),
                  machine_isa() == Isa::v4 ? v4::attention_forward : v3::attention_forward);
  });
}

void attention_backward(Stream& stream, const AttentionGradients& gradients, const Tensor& dout,
                        const AttentionSaved& saved, const AttentionShape& shape) {
  const auto& [dq, dk, dv] = gradients;
  const auto& [out, log_sum_exp, q, k, v, first, last] = saved;
  AttentionProblem p = problem_of(out, log_sum_exp, q, k, v, first, last, shape);
  const int64_t tokens = shape.sequences * shape.queries, key_tokens = shape.sequences * shape.keys;
  p.dout = head_rows("dout", dout, p.dtype, tokens, p.heads, p.size);
  p.dq = head_rows("dq", dq, p.dtype, tokens, p.heads, p.size);
  p.dk = head_rows("dk", dk, p.dtype, key_tokens, p.key_heads, p.size);
  p.dv = head_rows("dv", dv, p.dtype, key_tokens, p.key_heads, p.size);
  stream.run([=, keep = std::tuple{gradients, dout, saved}] {
    for_each_task(p, shape.sequences, std::max<int64_t>(p.queries, 1), attention_scratch(p, true),
                  machine_isa() == Isa::v4 ? v4::attention_backward : v3::attention_backward);
  });
}

}  // namespace hexad::kernels::cpu
