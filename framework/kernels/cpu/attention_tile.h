// Attention of one sequence's queries to one key/value head, on one thread. The implementation is compiled once for
// each instruction set.
//
// Keys are processed in blocks of 256, counted from the start of the sequence. Backward also processes queries in
// blocks of 42. A query's output and gradient depend only on the keys that the query sees. The instruction sets v3 and
// v4 give bitwise identical results.
#pragma once

#include <cstdint>

#include "framework/base/dtype.h"

namespace hexad::kernels::cpu {

/// Rows of heads [tokens, heads, C]. Element (t, h, c) is at data + t * token + h * head + c; strides are in elements.
struct HeadRows {
  void* data;
  int64_t token, head;
};

struct AttentionProblem {
  base::Dtype dtype;
  int64_t queries, keys, heads, key_heads, size;  // `queries` and `keys` are numbers per sequence; `size` is C
  int64_t value_size;                             // see AttentionShape; at most C
  double scale;
  bool causal;
  int64_t query_offset, window;             // see AttentionShape
  HeadRows q, k, v, out, dout, dq, dk, dv;  // dout, dq, dk and dv are used only in backward
  void* log_sum_exp;                        // [B S, H]
  const int32_t *first, *last;              // [B, S] or null
};

/// A part of the work of one call. A backward task processes all queries, because the gradients of keys and values are
/// sums over queries.
struct AttentionTask {
  int64_t sequence, key_head, first_query, end_query;
};

/// Numbers of queries and of keys in a block.
inline constexpr int64_t attention_queries = 42, attention_keys = 256;
/// Returns the bytes of scratch memory of one task. The memory must be aligned to 64 bytes.
int64_t attention_scratch(const AttentionProblem& problem, bool backward);

namespace v3 {
void attention_forward(const AttentionProblem& problem, const AttentionTask& task, void* scratch);
void attention_backward(const AttentionProblem& problem, const AttentionTask& task, void* scratch);
}  // namespace v3
namespace v4 {
void attention_forward(const AttentionProblem& problem, const AttentionTask& task, void* scratch);
void attention_backward(const AttentionProblem& problem, const AttentionTask& task, void* scratch);
}  // namespace v4

}  // namespace hexad::kernels::cpu
