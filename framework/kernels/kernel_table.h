// One struct of function pointers per backend. A test walks it for holes and makes the parity cases.
//
// Legend of shapes: T tokens (rows), D hidden, N output features, V vocabulary, E experts, K slots per token (top-k),
// R = rows of all experts together, B sequences of S positions, H query heads, G key/value heads, C head size.
// Floating tensors are f32, bf16 or f64; "acc" means f32, or f64 when the operands are f64. Tensors are contiguous
// unless "strided rows" is said: then only the last dimension is. Rows whose base and stride are multiples of 16 bytes
// may take a wider path. Every kernel is ordered on `stream`. Operands overlap only where a contract says "may be":
// then the two are the same tensor, never parts of each other.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "framework/device/stream.h"
#include "framework/kernels/wire.h"
#include "framework/tensor/tensor.h"

namespace hexad::kernels {

using device::Device;
using device::Stream;
using tensor::Tensor;

/// Matrix [N, D] of expert e of weights or gradients [E, N, D].
inline Tensor expert_matrix(const Tensor& stack, int64_t e) {
  return stack.slice(0, e, e + 1).reshape({stack.dim(1), stack.dim(2)});
}

/// Write mode of a result: it replaces what is there or is added to it.
enum class Write : uint8_t { replace, add };

/// Rows of each group: rows [o[e], o[e + 1]) of a tensor belong to group e, for offsets o of groups + 1 entries
/// (int64). Rows outside [o[0], o[groups]) belong to no group. Offsets are known to the host, to the device, or to
/// both; a backend may use either copy; if only the device copy exists, it may read it back.
struct GroupOffsets {
  int64_t groups = 0;
  int64_t max_rows = 0;             // no group has more; what a launch is made for where the host does not know
  std::span<const int64_t> host{};  // empty: unknown; read before a kernel's call returns
  Tensor device{};                  // [groups + 1] i64; undefined: not there

  /// Known to the host, in pageable memory, which may be changed or freed when the kernel's call has returned.
  static GroupOffsets on_host(std::span<const int64_t> offsets);
};

/// Products y = x w^T, in three entries so that schedules can part them. T may be zero: a weight gradient that replaces
/// is then zero.
struct MatmulKernels {
  /// out[T, N] = or += x[T, D] w[N, D]^T. Strided rows allowed for x and out. out may be acc while x and w are bf16; w
  /// may be acc, too (the router's), and out then is: the product is one of acc operands.
  void (*forward)(Stream&, const Tensor& out, const Tensor& x, const Tensor& w, Write write);
  /// dx[T, D] = or += dy[T, N] w[N, D]. Strided rows allowed for dx and dy. Where w is acc beside bf16 dx, dy is acc.
  void (*input_gradient)(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w, Write write);
  /// dw[N, D] = or += dy[T, N]^T x[T, D]. Strided rows allowed for dy and x. dw is acc, or of the dtype of x; dy may be
  /// acc beside bf16 x.
  void (*weight_gradient)(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write);
};

/// The same for the weights [E, N, D] of E experts at once, each with its group of rows; all operands of one dtype but
/// dw, which may be acc. Rows of nobody are neither read nor written. An expert without rows gets a zero (replace) or
/// untouched (add) weight gradient.
struct GroupedMatmulKernels {
  void (*forward)(Stream&, const Tensor& out, const Tensor& x, const Tensor& w, const GroupOffsets&, Write write);
  void (*input_gradient)(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w, const GroupOffsets&,
                         Write write);
  void (*weight_gradient)(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, const GroupOffsets&,
                          Write write);
};

struct BiasKernels {
  /// x[T, N] += bias[N].
  void (*forward)(Stream&, const Tensor& x, const Tensor& bias);
  /// dbias[N] (acc) += column sums of dy[T, N].
  void (*backward)(Stream&, const Tensor& dbias, const Tensor& dy);
  /// Row t of x[R, N] += bias[expert of t][N]; bias is [E, N].
  void (*grouped_forward)(Stream&, const Tensor& x, const Tensor& bias, const GroupOffsets&);
  void (*grouped_backward)(Stream&, const Tensor& dbias, const Tensor& dy, const GroupOffsets&);
};

/// y = x / sqrt(mean(x^2) + eps) * gain over the last dimension (Zhang & Sennrich 2019), with the residual stream on
/// both sides.
struct RmsNormKernels {
  /// The norm of x + addend (rounded to their dtype), which is kept in `sum`; both undefined: of x. inverse_rms[rows]
  /// (acc) is kept for backward. sum may be x or addend.
  void (*forward)(Stream&, const Tensor& out, const Tensor& sum, const Tensor& inverse_rms, const Tensor& x,
                  const Tensor& addend, const Tensor& gain, double eps);
  /// dx = the gradient through the norm of x + dresidual (undefined: none; may be dx). dgain_partials[P, D] (acc):
  /// addends of the gain's gradient, P = partials(rows); undefined: not wanted. dx undefined: not wanted.
  void (*backward)(Stream&, const Tensor& dx, const Tensor& dgain_partials, const Tensor& dy, const Tensor& x,
                   const Tensor& gain, const Tensor& inverse_rms, const Tensor& dresidual);
  /// Preferred number of partial sums on this backend, at least one. BiasKernels::backward adds them up.
  int64_t (*partials)(int64_t rows);
};

/// y = (x - mean) / sqrt(variance + eps) * gain + bias (Ba et al. 2016).
struct LayerNormKernels {
  /// stats[rows, 2] (acc): mean and inverse standard deviation. `bias` may be undefined.
  void (*forward)(Stream&, const Tensor& out, const Tensor& stats, const Tensor& x, const Tensor& gain,
                  const Tensor& bias, double eps);
  void (*input_gradient)(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                         const Tensor& stats);
  /// dgain[D], dbias[D] (acc) +=; dbias may be undefined.
  void (*weight_gradient)(Stream&, const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                          const Tensor& stats);
};

enum class Direction : uint8_t { forward, backward };

/// Rotary position embedding (Su et al. 2021), halves convention: dimension i is paired with i + C/2.
struct RotaryKernels {
  /// out[T, H, C] = x rotated by the angles of positions[T] (i32); strided rows allowed for x.
  /// cosine, sine: [context, C/2] acc. `backward` rotates by the negative angle (the adjoint). out may be x.
  void (*apply)(Stream&, const Tensor& out, const Tensor& x, const Tensor& positions, const Tensor& cosine,
                const Tensor& sine, Direction direction);
};

/// Parameters of an attention call. A query at row i (position i + query_offset) of a sequence sees the keys j with
/// first[i] <= j < last[i] (its own document; i32 [B, S] each, undefined: the whole sequence), and j <= i +
/// query_offset when causal.
struct AttentionShape {
  int64_t sequences, queries, keys;  // B, positions of q and of k, v per sequence
  double scale;                      // usually 1 / sqrt(C)
  bool causal = true;
  int64_t query_offset = 0;    // keys before the first query: generation with a cache
  bool deterministic = false;  // backward gives the same bits every time; some backends are faster otherwise
  /// Number of documents in all sequences, if first and last divide each sequence into documents without gaps and all
  /// rows of a document have its range. 0: not counted, or arbitrary ranges. Some backends are faster if they know.
  int64_t documents = 0;
};

/// Blockwise softmax(scale q k^T) v (Dao et al. 2022); no S x S matrix is kept. q, out: [B S, H, C]; k, v: [B S, G, C],
/// H a multiple of G (grouped queries). Strided rows allowed for q, k, v and their gradients.
struct AttentionKernels {
  /// log_sum_exp [B S, H] (acc) is kept for backward; -inf for a row that sees no key, whose output is zero.
  void (*forward)(Stream&, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape);
  void (*backward)(Stream&, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dout, const Tensor& out,
                   const Tensor& log_sum_exp, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first,
                   const Tensor& last, const AttentionShape& shape);
  /// sum[T, H, C] and its sum_log_sum_exp[T, H] (acc both), which stand for the keys met so far, take in those of a
  /// block of further keys, block[T, H, C] and block_log_sum_exp[T, H] (acc): put together by log-sum-exps (Liu et al.
  /// 2023, section 3). A row that saw no key of the block (-inf) stays as it is, whatever the block has there.
  void (*merge)(Stream&, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                const Tensor& block_log_sum_exp);
};

/// out = gate * sigmoid(gate) * up * weights (Shazeer 2020), with one weight a row [R] (acc; undefined: one). Weighting
/// here what a linear map follows saves keeping the map's results for the weights' gradients. Strided rows allowed for
/// gate, up and their gradients.
struct SwigluKernels {
  void (*forward)(Stream&, const Tensor& out, const Tensor& gate, const Tensor& up, const Tensor& weights);
  /// Gradients of the weighted product: dgate, dup, dweights[R] (acc; undefined: not wanted), and once more the product
  /// itself (undefined: not wanted). dgate may be gate or dout, dup may be up, product may be dout where dgate is not.
  void (*backward)(Stream&, const Tensor& dgate, const Tensor& dup, const Tensor& product, const Tensor& dweights,
                   const Tensor& dout, const Tensor& gate, const Tensor& up, const Tensor& weights);
};

/// out = x/2 (1 + erf(x / sqrt 2)) or its tanh approximation (Hendrycks & Gimpel 2016).
enum class GeluKind : uint8_t { exact, tanh };
constexpr auto enum_names(GeluKind) {
  return std::to_array<std::pair<GeluKind, std::string_view>>({{GeluKind::exact, "exact"}, {GeluKind::tanh, "tanh"}});
}
struct GeluKernels {
  void (*forward)(Stream&, const Tensor& out, const Tensor& x, GeluKind kind);
  /// dx may be x or dout.
  void (*backward)(Stream&, const Tensor& dx, const Tensor& dout, const Tensor& x, GeluKind kind);
};

enum class RouterScore : uint8_t { softmax, sigmoid };
constexpr auto enum_names(RouterScore) {
  return std::to_array<std::pair<RouterScore, std::string_view>>(
      {{RouterScore::softmax, "softmax"}, {RouterScore::sigmoid, "sigmoid"}});
}

/// Rule by which experts are chosen from scores.
struct RouterRule {
  RouterScore score = RouterScore::softmax;
  int64_t top_k = 2;
  bool normalize = true;   // the chosen weights sum to one
  double scale = 1.0;      // of the weights, after normalising (DeepSeek's routed scaling factor)
  int64_t groups = 1;      // group-limited: experts in `groups` equal groups, only those of the best `top_groups`
  int64_t top_groups = 1;  //   (by the sum of their two best selection scores) may be chosen
};

/// Scores, selection and weights; all in acc. Selection uses scores + bias (bias [E], may be undefined; it never enters
/// the weights). Ties go to the lower index; a NaN score is chosen last; ids are always in range.
struct RouterKernels {
  /// logits [T, E] -> scores [T, E], ids [T, K] (i32, by falling selection score), weights [T, K].
  void (*forward)(Stream&, const Tensor& scores, const Tensor& ids, const Tensor& weights, const Tensor& logits,
                  const Tensor& bias, const RouterRule& rule);
  /// weights [T, K] for ids given from outside (overridden routing).
  void (*weigh)(Stream&, const Tensor& weights, const Tensor& ids, const Tensor& scores, const RouterRule& rule);
  /// dlogits [T, E] = gradient through weights (dweights [T, K]) and through scores (dscores [T, E], may be undefined).
  void (*backward)(Stream&, const Tensor& dlogits, const Tensor& dweights, const Tensor& dscores, const Tensor& scores,
                   const Tensor& ids, const RouterRule& rule);
};

/// Statistics of a router's choices and the losses taken from them. A scope is a set of tokens: segment[T] (i32) gives
/// each token's, -1: in none (padding); undefined: all tokens are in scope 0.
struct RouterLossKernels {
  /// counts[S, E] (i64) = or += slots of ids [T, K] (i32, -1: none) by scope and expert.
  void (*count)(Stream&, const Tensor& counts, const Tensor& ids, const Tensor& segment, Write write);
  /// fractions[S, E] (acc) = counts[S, E] (i64 or acc) over their sum in the scope; 1/E where that is zero.
  void (*fractions)(Stream&, const Tensor& fractions, const Tensor& counts);
  /// loss[1] (acc) = sum_t c_s <p_t, f_s> over tokens t of scopes s, with p_t = scores[t, :] over their sum (a row
  /// whose sum is zero counts nothing), f_s = fractions[s, :] and c_s = coefficients[s] (f64) (Shazeer 2017; Fedus
  /// 2021, eq. 4). Summed in double in an order that depends on the shape alone.
  void (*balance)(Stream&, const Tensor& loss, const Tensor& scores, const Tensor& segment, const Tensor& fractions,
                  const Tensor& coefficients);
  /// dscores[T, E] (acc) = dloss[1] times the gradient of `balance`; zero rows for tokens in no scope.
  void (*balance_backward)(Stream&, const Tensor& dscores, const Tensor& dloss, const Tensor& scores,
                           const Tensor& segment, const Tensor& fractions, const Tensor& coefficients);
  /// loss[1] (acc) = scale times the sum over tokens in a scope of logsumexp(logits[t, :])^2 (Zoph et al. 2022, eq. 5),
  /// summed as above; log_sum_exp[T] (acc, 0 for tokens in no scope) is kept for backward.
  void (*z)(Stream&, const Tensor& loss, const Tensor& log_sum_exp, const Tensor& logits, const Tensor& segment,
            double scale);
  /// dlogits[T, E] (acc) = dloss[1] times the gradient of `z`.
  void (*z_backward)(Stream&, const Tensor& dlogits, const Tensor& dloss, const Tensor& logits,
                     const Tensor& log_sum_exp, const Tensor& segment, double scale);
};

/// Tokens that an expert over capacity keeps: the most probable, or the first.
enum class DropRule : uint8_t { probability, position };
constexpr auto enum_names(DropRule) {
  return std::to_array<std::pair<DropRule, std::string_view>>(
      {{DropRule::probability, "probability"}, {DropRule::position, "position"}});
}

/// An expert keeps at most min(ceil(factor K n / E), n) slots (GShard) from each scope of `scope_tokens` consecutive
/// tokens (the last may be shorter), n being the number of the scope's tokens with any slot.
struct Capacity {
  int64_t scope_tokens;  // > 0
  double factor;         // >= 0
  DropRule rule;
};

struct CapacityKernels {
  /// ids [T, K] (i32; a token names an expert at most once) = -1 for slots over capacity. Keeps those with the highest
  /// scores [T, E] (acc; NaN counts as -infinity; ties: the earlier token's), or simply the earliest. Token t is row
  /// rows[t] (i64 [T]) of both; undefined: row t. Ids that name no expert stay as they are.
  void (*drop)(Stream&, const Tensor& ids, const Tensor& scores, const Tensor& rows, const Capacity& capacity);
};

/// A token's slots in the order of their experts.
struct SlotKernels {
  /// ids[t, :] (i32 [T, K]) = -1 where valid[t] (u8) is zero.
  void (*mask)(Stream&, const Tensor& ids, const Tensor& valid);
  /// Sorts the kept slots of ids [T, K] (i32, -1: dropped; others in [0, E)) by expert, then token, then slot.
  /// offsets[E + 1] (i64): rows of each expert; rows[T, K] (i64): the row of each slot, -1: dropped; tokens[T K] (i64):
  /// the token of each row, -1 for the rows from offsets[E] on, which belong to no expert.
  void (*sort)(Stream&, const Tensor& tokens, const Tensor& rows, const Tensor& offsets, const Tensor& ids);
  /// Keys that sort slots by chunk, then expert: keys[t, k] (i32) = c experts + ids[t, k] for ids [T, K]. Chunk c of
  /// the slot is chunk_of[ids[t, k]] (i32 [experts]), or t chunks / T, rounded down, if chunk_of is undefined. -1 stays
  /// -1, and an id that names no expert becomes chunks experts, which must fit i32. keys may be ids.
  void (*keys)(Stream&, const Tensor& keys, const Tensor& ids, const Tensor& chunk_of, int64_t experts, int64_t chunks);
  /// out[i] (i64) = first + i.
  void (*iota)(Stream&, const Tensor& out, int64_t first);
};

/// Indices that count from elsewhere. out may be x where their dtypes are the same, unless said otherwise.
struct IndexKernels {
  /// out[i] = x[i] + by (both i32 or both i64); a negative x[i], which is no index, stays.
  void (*shift)(Stream&, const Tensor& out, const Tensor& x, int64_t by);
  /// out[i] (i32 or i64) = x[i] - first where first <= x[i] < first + count, else -1; x is i32.
  void (*within)(Stream&, const Tensor& out, const Tensor& x, int64_t first, int64_t count);
  /// out[i] = x[i] + parts[1, p] with parts [2, P], p being the first part that ends behind x[i]: x[i] < parts[0, p].
  /// All i64. A negative x[i] stays; the others are below the last part's end.
  void (*shift_parts)(Stream&, const Tensor& out, const Tensor& x, const Tensor& parts);
  /// out[i] = x[index[i]], all i64. out may be index.
  void (*take)(Stream&, const Tensor& out, const Tensor& x, const Tensor& index);
  /// out[x[i]] = i for the x[i] that are not negative, which are distinct; all i64. Elements that no x names are
  /// untouched. out may not be x.
  void (*inverse)(Stream&, const Tensor& out, const Tensor& x);
};

/// Rows to experts and back. `rows` [T, K] (i64) says at which row of the permuted tensor slot k of token t lies; -1:
/// the slot was dropped. `tokens` [R] (i64) is the inverse: which token lies at row r; -1: none.
struct PermuteKernels {
  /// out[r, :] = x[tokens[r], :]; rows of no token are untouched. `rows` (may be undefined) is the inverse, by which a
  /// backend may go instead, reading x once.
  void (*gather)(Stream&, const Tensor& out, const Tensor& x, const Tensor& tokens, const Tensor& rows);
  /// out[t, :] = sum over k of weights[t, k] y[rows[t, k], :], in slot order in acc, then the addends [T, D] in theirs;
  /// weights undefined means one. The adjoint of `gather`, and the MoE layer's combine with what joins it: shared
  /// experts, the residual. out may be an addend.
  void (*combine)(Stream&, const Tensor& out, const Tensor& y, const Tensor& rows, const Tensor& weights,
                  std::span<const Tensor> addends);
  /// dy[rows[t, k], :] = weights[t, k] dout[t, :] and dweights[t, k] = <dout[t, :], y[rows[t, k], :]> (0 if dropped).
  /// Rows of dy that no slot names are zero.
  void (*combine_backward)(Stream&, const Tensor& dy, const Tensor& dweights, const Tensor& dout, const Tensor& y,
                           const Tensor& rows, const Tensor& weights);
  /// out[index[r], :] = x[r, :] for distinct rows index[R] (i64; -1: row r goes nowhere); rows of out that no index
  /// names are untouched. The inverse of `gather` over a part of the rows. Strided rows allowed, here and in the two
  /// below.
  void (*scatter)(Stream&, const Tensor& out, const Tensor& x, const Tensor& index);
  /// out[r, :] = scale[r] x[index[r], :] with index[R] (i64) and scale[R] (acc; undefined: one, a copy). The part of
  /// `combine_backward` that gives dy, for any part of the rows. out may be x where index[r] = r.
  void (*gather_weighted)(Stream&, const Tensor& out, const Tensor& x, const Tensor& index, const Tensor& scale);
  /// out[r] (acc) = <a[r, :], b[r, :]>, summed in an order that depends on the width alone.
  void (*row_dots)(Stream&, const Tensor& out, const Tensor& a, const Tensor& b);
};

/// Rows of tensors to bytes and back (framework/kernels/wire.h). Strided rows allowed for x and out.
struct WireKernels {
  /// bytes[R, wire_row_bytes(format, dtype of x, D, X)] (u8) from the rows of x[R', D] that index[R] (i64; undefined:
  /// row by row, R = R') names, and from row_weights[R, X] (acc; undefined: X = 0), which go with position r.
  /// fp8: codes of x / scale in float with scale = max(max |row| / 448, 2^-126), 0 for a row of zeros; f64 goes through
  /// float. A row with an element that is not finite (in float) becomes NaN throughout, scale too: a poisoned row must
  /// not look healthy.
  void (*pack)(Stream&, const Tensor& bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
               WireFormat format);
  /// out[index[r], :] = scale * value for distinct rows index[R] (undefined: out[r, :], out has R rows); other rows of
  /// out are untouched. row_weights_out[R, X] = the row_weights of position r; undefined: they are not read, however
  /// many follow.
  void (*unpack)(Stream&, const Tensor& out, const Tensor& row_weights_out, const Tensor& bytes, const Tensor& index,
                 WireFormat format);
};

struct EmbeddingKernels {
  /// out[T, D] = table[ids[t], :] (ids i32, checked by the caller).
  void (*forward)(Stream&, const Tensor& out, const Tensor& table, const Tensor& ids);
  /// dtable (acc) [V, D] += dout rows, in token order; a token of id -1 is skipped, and its row is not read.
  void (*backward)(Stream&, const Tensor& dtable, const Tensor& dout, const Tensor& ids);
};

/// Softmax cross-entropy over rows of logits [T, V] (acc); targets i32, -1: ignored.
struct CrossEntropyKernels {
  /// losses[T] (acc, 0 where ignored). dlogits[T, V] (undefined: not wanted; of any floating dtype) = scale * (softmax
  /// - onehot), zero rows where ignored or where scale is 0. dlogits may be logits.
  void (*forward)(Stream&, const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& targets,
                  double scale);
  /// Preferred number of rows whose logits exist at a time, if logits are never kept whole; at least one.
  int64_t (*chunk_rows)(int64_t rows, int64_t vocabulary);
};

/// The same formula over columns that are split over ranks, in two steps with an exchange between them; each rank reads
/// its logits once. `targets` [T] (i32, -1: ignored) are of the whole vocabulary, of which this rank holds the columns
/// [first, first + W).
struct SplitSoftmaxKernels {
  /// Statistics that a rank sends the others for each row of its columns: rows of statistics [statistics_count, T].
  enum Statistic : int64_t {
    largest,    // m = max of the logits
    total,      // the sum of e^(logit - m)
    at_target,  // the target's logit; 0 on ranks that do not hold it
    statistics_count,
  };
  /// statistics [3, T] from logits[T, W] (acc both); the logits become e^(logit - m).
  void (*start)(Stream&, const Tensor& statistics, const Tensor& logits, const Tensor& targets, int64_t first);
  /// losses[T] (acc, 0 where ignored) from the statistics of all ranks [ranks, 3, T], of which this one is `rank`. What
  /// `start` left in `logits` becomes scale * (softmax - onehot); zero where ignored or where scale is 0.
  void (*finish)(Stream&, const Tensor& losses, const Tensor& logits, const Tensor& statistics, int64_t rank,
                 const Tensor& targets, int64_t first, double scale);
};

/// Elementwise and reductions.
struct PointwiseKernels {
  void (*fill)(Stream&, const Tensor& out, double value);
  /// out = x with another dtype or strides (strided rows).
  void (*copy)(Stream&, const Tensor& out, const Tensor& x);
  /// out = a + b. out may be a or b.
  void (*add)(Stream&, const Tensor& out, const Tensor& a, const Tensor& b);
  /// out += alpha * x; out may be acc while x is bf16.
  void (*axpy)(Stream&, const Tensor& out, double alpha, const Tensor& x);
  void (*scale)(Stream&, const Tensor& out, double alpha);
  /// out = min(max(x, -limit), limit); backward passes dout where |x| <= limit.
  void (*clamp)(Stream&, const Tensor& out, const Tensor& x, double limit);
  void (*clamp_backward)(Stream&, const Tensor& dx, const Tensor& dout, const Tensor& x, double limit);
  /// out[1] (acc or f64) = or += the sum of all elements, taken in double in an order that depends on their number
  /// alone.
  void (*sum)(Stream&, const Tensor& out, const Tensor& x, Write write);
  /// out = addends[0] + addends[1] + ..., in this order in acc, as comm::reduce adds ranks' contributions: the same
  /// bits. One addend at least, on CUDA 64 at most; all of one dtype. out may be an addend.
  void (*sum_of)(Stream&, const Tensor& out, std::span<const Tensor> addends);
};

/// AdamW (Loshchilov & Hutter 2019), decoupled decay: w -= lr (m^ / (sqrt(v^) + eps) + decay w).
struct AdamwStep {
  double lr, beta1, beta2, eps;
  int64_t step;  // 1 for the first
};

/// Part of one parameter that one launch updates, flat and of equal length. main, m, v are acc; the gradient is acc or
/// bf16. `weights` (the model's copy, any float dtype) receives the rounded result; it may be main.
struct AdamwSlice {
  Tensor main, m, v, weights, gradient;
  double weight_decay;
};

/// `factor` [1] (f64; undefined: one) is multiplied into the gradients while they are read. A negative one says that
/// the step is skipped: nothing is written.
struct OptimizerKernels {
  void (*adamw)(Stream&, std::span<const AdamwSlice> slices, const AdamwStep& step, const Tensor& factor);
  /// main -= lr * factor * gradient; weights = main.
  void (*sgd)(Stream&, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr,
              const Tensor& factor);
  /// out[1] (f64) = or += the sum of squares, in an order that depends on the number of elements alone.
  void (*squared_norm)(Stream&, const Tensor& out, const Tensor& x, Write write);
  /// factor[1] (f64) = min(1, limit / sqrt(sums[0])), or 1 where limit is 0; -1 when any of sums[n] (f64) is not
  /// finite: the squared norm of all gradients and whatever else must be finite for a step to count.
  void (*clip)(Stream&, const Tensor& factor, const Tensor& sums, double limit);
};

struct KernelTable {
  MatmulKernels matmul;
  GroupedMatmulKernels grouped_matmul;
  BiasKernels bias;
  RmsNormKernels rms_norm;
  LayerNormKernels layer_norm;
  RotaryKernels rotary;
  AttentionKernels attention;
  SwigluKernels swiglu;
  GeluKernels gelu;
  RouterKernels router;
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
};

extern const KernelTable reference_table;  // naive loops in double
extern const KernelTable cpu_table;        // fast, on threads
extern const KernelTable emulated_table;   // the CPU's, queued on the emulated device
/// Throws Error(usage) in a program that was built without CUDA.
const KernelTable& cuda_kernels();
/// The table of the device's backend.
const KernelTable& kernels(const Device& device);

}  // namespace hexad::kernels
