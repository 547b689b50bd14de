// One struct of function pointers per backend. A test walks it for holes and makes the parity cases.
//
// Legend of shapes: T tokens (rows), D hidden, N output features, V vocabulary, E experts, K slots per token (top-k),
// R = rows of all experts together, B sequences of S positions, H query heads, G key/value heads, C head size.
// Floating tensors are f32, bf16 or f64; "acc" means f32, or f64 when the operands are f64. Tensors are contiguous
// unless "strided rows" is said: then only the last dimension is. Every kernel is ordered on `stream`.
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

using namespace tensor;

/// Packed copies of a weight in the layouts that products like best. Owned by a Parameter; cleared when it changes
/// (once an optimizer step), filled by the backend. What is inside is the backend's own.
class PackCache;

/// A product's weight operand: the tensor and, where it belongs to a parameter, the place for its packed copies.
struct Weight {
  Weight(const Tensor& data_, PackCache* packs_ = nullptr, int64_t first_ = 0)  // implicit
      : data(data_), packs(packs_), first(first_) {}
  /// Matrix [N, D] of expert e of a stack [E, N, D]. Both use the same packed copies.
  Weight of_expert(int64_t e) const {
    return {data.slice(0, e, e + 1).reshape({data.dim(1), data.dim(2)}), packs, first + e};
  }
  Tensor data;
  PackCache* packs;
  int64_t first;  // of its matrices, among those whose copies are in `packs`
};

/// Whether a result replaces or is added to what is there.
enum class Write : uint8_t { replace, add };

/// Products y = x w^T, in three entries so that schedules can part them.
struct MatmulKernels {
  /// out[T, N] = x[T, D] w[N, D]^T. Strided rows allowed for x and out. out may be acc while x and w are bf16.
  void (*forward)(Stream&, const Tensor& out, const Tensor& x, const Weight& w);
  /// dx[T, D] = dy[T, N] w[N, D].
  void (*input_gradient)(Stream&, const Tensor& dx, const Tensor& dy, const Weight& w);
  /// dw[N, D] (acc) = or += dy[T, N]^T x[T, D].
  void (*weight_gradient)(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write);
};

/// The same for E experts at once: rows offsets[e] .. offsets[e + 1] belong to expert e (host array, E + 1 entries,
/// int64). Rows outside [offsets[0], offsets[E]) are neither read nor written. An expert without rows gets a zero
/// (replace) or untouched (add) weight gradient.
struct GroupedMatmulKernels {
  void (*forward)(Stream&, const Tensor& out, const Tensor& x, const Weight& w, std::span<const int64_t> offsets);
  void (*input_gradient)(Stream&, const Tensor& dx, const Tensor& dy, const Weight& w,
                         std::span<const int64_t> offsets);
  void (*weight_gradient)(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x,
                          std::span<const int64_t> offsets, Write write);
};

struct BiasKernels {
  /// x[T, N] += bias[N].
  void (*forward)(Stream&, const Tensor& x, const Tensor& bias);
  /// dbias[N] (acc) += column sums of dy[T, N].
  void (*backward)(Stream&, const Tensor& dbias, const Tensor& dy);
  /// Row t of x[R, N] += bias[expert of t][N]; bias is [E, N].
  void (*grouped_forward)(Stream&, const Tensor& x, const Tensor& bias, std::span<const int64_t> offsets);
  void (*grouped_backward)(Stream&, const Tensor& dbias, const Tensor& dy, std::span<const int64_t> offsets);
};

/// y = x / sqrt(mean(x^2) + eps) * gain over the last dimension (Zhang & Sennrich 2019).
struct RmsNormKernels {
  /// inverse_rms[rows] (acc) is kept for backward.
  void (*forward)(Stream&, const Tensor& out, const Tensor& inverse_rms, const Tensor& x, const Tensor& gain,
                  double eps);
  void (*input_gradient)(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& gain,
                         const Tensor& inverse_rms);
  /// dgain[D] (acc) += .
  void (*weight_gradient)(Stream&, const Tensor& dgain, const Tensor& dy, const Tensor& x, const Tensor& inverse_rms);
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

/// What one attention call computes. A query at row i (position i + query_offset) of a sequence sees the keys j with
/// first[i] <= j < last[i] (its own document; i32 [B, S] each, undefined: the whole sequence), and j <= i +
/// query_offset when causal.
struct AttentionShape {
  int64_t sequences, queries, keys;  // B, positions of q and of k, v per sequence
  double scale;                      // usually 1 / sqrt(C)
  bool causal = true;
  int64_t query_offset = 0;  // keys before the first query: generation with a cache
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
};

/// out = gate * sigmoid(gate) * up (Shazeer 2020). Strided rows allowed for gate, up and their gradients.
struct SwigluKernels {
  void (*forward)(Stream&, const Tensor& out, const Tensor& gate, const Tensor& up);
  void (*backward)(Stream&, const Tensor& dgate, const Tensor& dup, const Tensor& dout, const Tensor& gate,
                   const Tensor& up);
};

/// out = x/2 (1 + erf(x / sqrt 2)) or its tanh approximation (Hendrycks & Gimpel 2016).
enum class GeluKind : uint8_t { exact, tanh };
constexpr auto enum_names(GeluKind) {
  return std::to_array<std::pair<GeluKind, std::string_view>>({{GeluKind::exact, "exact"}, {GeluKind::tanh, "tanh"}});
}
struct GeluKernels {
  void (*forward)(Stream&, const Tensor& out, const Tensor& x, GeluKind kind);
  void (*backward)(Stream&, const Tensor& dx, const Tensor& dout, const Tensor& x, GeluKind kind);
};

enum class RouterScore : uint8_t { softmax, sigmoid };
constexpr auto enum_names(RouterScore) {
  return std::to_array<std::pair<RouterScore, std::string_view>>(
      {{RouterScore::softmax, "softmax"}, {RouterScore::sigmoid, "sigmoid"}});
}

/// How experts are chosen from scores.
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

/// Rows to experts and back. `rows` [T, K] (i64) says at which row of the permuted tensor slot k of token t lies; -1:
/// the slot was dropped. `tokens` [R] (i64) is the inverse: which token lies at row r.
struct PermuteKernels {
  /// out[r, :] = x[tokens[r], :].
  void (*gather)(Stream&, const Tensor& out, const Tensor& x, const Tensor& tokens);
  /// out[t, :] = sum over k of weights[t, k] y[rows[t, k], :], in slot order in acc; weights undefined means one.
  /// The adjoint of `gather`, and the MoE layer's combine.
  void (*combine)(Stream&, const Tensor& out, const Tensor& y, const Tensor& rows, const Tensor& weights);
  /// dy[rows[t, k], :] = weights[t, k] dout[t, :] and dweights[t, k] = <dout[t, :], y[rows[t, k], :]> (0 if dropped).
  /// Rows of dy that no slot names are zero.
  void (*combine_backward)(Stream&, const Tensor& dy, const Tensor& dweights, const Tensor& dout, const Tensor& y,
                           const Tensor& rows, const Tensor& weights);
  /// out[index[r], :] = x[r, :] for distinct rows index[R] (i64); rows of out that no index names are untouched. The
  /// inverse of `gather` over a part of the rows. Strided rows allowed, here and in the two below.
  void (*scatter)(Stream&, const Tensor& out, const Tensor& x, const Tensor& index);
  /// out[r, :] = scale[r] x[index[r], :] with index[R] (i64) and scale[R] (acc; undefined: one, a copy). The part of
  /// `combine_backward` that gives dy, for any part of the rows.
  void (*gather_weighted)(Stream&, const Tensor& out, const Tensor& x, const Tensor& index, const Tensor& scale);
  /// out[r] (acc) = <a[r, :], b[r, :]>, summed in an order that depends on the width alone.
  void (*row_dots)(Stream&, const Tensor& out, const Tensor& a, const Tensor& b);
};

/// Rows of tensors to bytes and back (framework/kernels/wire.h). Strided rows allowed for x and out.
struct WireKernels {
  /// bytes[R, wire_row_bytes(format, dtype of x, D, X)] (u8) from the rows of x[R', D] that index[R] (i64; undefined:
  /// row by row, R = R') names, and from extras[R, X] (acc; undefined: X = 0), which go with position r.
  /// fp8: codes of x / scale in float with scale = max(max |row| / 448, 2^-126), 0 for a row of zeros; f64 goes through
  /// float. A row with an element that is not finite (in float) becomes NaN throughout, scale too: a poisoned row must
  /// not look healthy.
  void (*pack)(Stream&, const Tensor& bytes, const Tensor& x, const Tensor& index, const Tensor& extras,
               WireFormat format);
  /// out[index[r], :] = scale * value for distinct rows index[R] (undefined: out[r, :], out has R rows); other rows of
  /// out are untouched. extras_out[R, X] = the extras of position r; undefined: they are not read, however many follow.
  void (*unpack)(Stream&, const Tensor& out, const Tensor& extras_out, const Tensor& bytes, const Tensor& index,
                 WireFormat format);
};

struct EmbeddingKernels {
  /// out[T, D] = table[ids[t], :] (ids i32, checked by the caller).
  void (*forward)(Stream&, const Tensor& out, const Tensor& table, const Tensor& ids);
  /// dtable (acc) [V, D] += dout rows, in token order.
  void (*backward)(Stream&, const Tensor& dtable, const Tensor& dout, const Tensor& ids);
};

/// Softmax cross-entropy over rows of logits [T, V] (acc); targets i32, -1: ignored.
struct CrossEntropyKernels {
  /// losses[T] (acc, 0 where ignored). Overwrites logits with scale * (softmax - onehot), zero rows where ignored; with
  /// scale 0 the logits are left as they were.
  void (*forward)(Stream&, const Tensor& losses, const Tensor& logits, const Tensor& targets, double scale);
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
};

/// AdamW (Loshchilov & Hutter 2019), decoupled decay: w -= lr (m^ / (sqrt(v^) + eps) + decay w).
struct AdamwStep {
  double lr, beta1, beta2, eps, weight_decay;
  int64_t step;           // 1 for the first
  double gradient_scale;  // clipping factor, multiplied into the gradient while it is read
};

struct OptimizerKernels {
  /// main, m, v, gradient: acc. `weights` (the model's copy, any float dtype) receives the rounded result; it may be
  /// main.
  void (*adamw)(Stream&, const Tensor& main, const Tensor& m, const Tensor& v, const Tensor& weights,
                const Tensor& gradient, const AdamwStep& step);
  /// main -= lr * gradient_scale * gradient; weights = main.
  void (*sgd)(Stream&, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr,
              double gradient_scale);
  /// Sum of squares in double, in an order that does not depend on the number of threads.
  double (*squared_norm)(Stream&, const Tensor& x);
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
  PermuteKernels permute;
  WireKernels wire;
  EmbeddingKernels embedding;
  CrossEntropyKernels cross_entropy;
  PointwiseKernels pointwise;
  OptimizerKernels optimizer;
};

extern const KernelTable reference_table;  // naive loops in double
extern const KernelTable cpu_table;        // fast, OpenMP
/// The table of the device's backend.
const KernelTable& kernels(const Device& device);

}  // namespace hexad::kernels
