// One struct of function pointers per backend. A family declares its kernels here, and each backend defines it in one
// file (`const SwigluKernels SwigluKernels::of_cpu{...}`). entries() and families() list the kernels and families.
// Tests and tables that wrap other tables iterate over these lists (framework/kernels/entries.h).
//
// Legend of shapes: T tokens (rows), D hidden, N output features, V vocabulary, E experts, K slots per token (top-k), R
// = rows of all experts together, B sequences of S positions, H query heads, G key/value heads, C head size. Floating
// tensors are f32, bf16 or f64; "acc" means f32, or f64 if the operands are f64. Tensors are contiguous unless a
// comment says "strided rows": then only the last dimension is. Rows whose base and stride are multiples of 16 bytes
// may take a wider path. Every kernel is ordered on `stream`. Operands overlap only if a contract says "may be": then
// the two are the same tensor, never parts of each other.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "framework/base/global_index.h"
#include "framework/device/stream.h"
#include "framework/kernels/kernel.h"
#include "framework/kernels/wire.h"
#include "framework/tensor/tensor.h"

namespace hexad::kernels {

using device::Device;
using device::Stream;
using tensor::Tensor;

/// Returns matrix [N, D] of expert e of weights or gradients [E, N, D].
inline Tensor expert_matrix(const Tensor& stack, int64_t e) {
  return stack.slice(0, e, e + 1).reshape({stack.dim(1), stack.dim(2)});
}

/// Write mode of a result: it replaces the old values or is added to them.
enum class Write : uint8_t { replace, add };

/// Rows of each group: rows [o[e], o[e + 1]) of a tensor belong to group e, for offsets o of groups + 1 entries
/// (int64). Rows outside [o[0], o[groups]) belong to no group. The host, the device, or both have the offsets. A
/// backend may use either copy; if only the device copy exists, the backend may read that copy back.
struct GroupOffsets {
  int64_t groups = 0;
  int64_t max_rows = 0;             // upper bound for all groups; sizes a launch if the host does not have the offsets
  std::span<const int64_t> host{};  // empty: unknown; read before a kernel's call returns
  Tensor device{};                  // [groups + 1] i64; undefined: not available

  /// Returns offsets in pageable host memory, which may be changed or freed when the kernel's call has returned.
  static GroupOffsets on_host(std::span<const int64_t> offsets);
};

/// Products y = x w^T, in three entries so that schedules can separate them. T may be zero: a weight gradient that
/// replaces is then zero.
struct MatmulKernels {
  /// Computes out[T, N] = or += x[T, D] w[N, D]^T. Strided rows allowed for x and out. out may be acc while x and w are
  /// bf16. w may be acc, too (the router's); then out is acc, and the product is one of acc operands.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& w, Write write)> forward;
  /// Computes dx[T, D] = or += dy[T, N] w[N, D]. Strided rows allowed for dx and dy. If w is acc and dx is bf16, dy is
  /// acc.
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dy, const Tensor& w, Write write)> input_gradient;
  /// Computes dw[N, D] = or += dy[T, N]^T x[T, D]. Strided rows allowed for dy and x. dw is acc, or has the dtype of x;
  /// dy may be acc if x is bf16.
  Kernel<void(Stream&, Out<Tensor> dw, const Tensor& dy, const Tensor& x, Write write)> weight_gradient;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &MatmulKernels::forward},
                      Named{"input_gradient", &MatmulKernels::input_gradient},
                      Named{"weight_gradient", &MatmulKernels::weight_gradient}};
  }
  static const MatmulKernels of_reference, of_cpu, of_cuda;
};

/// Products like MatmulKernels for the weights [E, N, D] of E experts together, each with its group of rows. All
/// operands have one dtype except dw, which may be acc. Rows without a group are neither read nor written. An expert
/// without rows gets a zero (replace) or unchanged (add) weight gradient.
struct GroupedMatmulKernels {
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& w, const GroupOffsets&, Write write)> forward;
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dy, const Tensor& w, const GroupOffsets&, Write write)>
      input_gradient;
  Kernel<void(Stream&, Out<Tensor> dw, const Tensor& dy, const Tensor& x, const GroupOffsets&, Write write)>
      weight_gradient;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &GroupedMatmulKernels::forward},
                      Named{"input_gradient", &GroupedMatmulKernels::input_gradient},
                      Named{"weight_gradient", &GroupedMatmulKernels::weight_gradient}};
  }
  static const GroupedMatmulKernels of_reference, of_cpu, of_cuda;
};

struct BiasKernels {
  /// Computes x[T, N] += bias[N].
  Kernel<void(Stream&, Out<Tensor> x, const Tensor& bias)> forward;
  /// Computes dbias[N] (acc) += column sums of dy[T, N].
  Kernel<void(Stream&, Out<Tensor> dbias, const Tensor& dy)> backward;
  /// Adds bias[expert of t][N] to row t of x[R, N]; bias is [E, N].
  Kernel<void(Stream&, Out<Tensor> x, const Tensor& bias, const GroupOffsets&)> grouped_forward;
  Kernel<void(Stream&, Out<Tensor> dbias, const Tensor& dy, const GroupOffsets&)> grouped_backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &BiasKernels::forward}, Named{"backward", &BiasKernels::backward},
                      Named{"grouped_forward", &BiasKernels::grouped_forward},
                      Named{"grouped_backward", &BiasKernels::grouped_backward}};
  }
  static const BiasKernels of_reference, of_cpu, of_cuda;
};

/// RMS norm y = x / sqrt(mean(x^2) + eps) * gain over the last dimension (Zhang & Sennrich 2019), with the residual
/// stream on both sides.
struct RmsNormKernels {
  /// Computes sum = x + addend (rounded to their dtype) and its norm, out. If `sum` and `addend` are undefined, out is
  /// the norm of x. inverse_rms[rows] (acc) is kept for backward. sum may be x or addend.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> sum, Out<Tensor> inverse_rms, const Tensor& x, const Tensor& addend,
              const Tensor& gain, double eps)>
      forward;
  /// Computes dx = dresidual (undefined: zero; may be dx) plus the gradient through the norm of x. dgain_partials[P, D]
  /// (acc): addends of the gain's gradient, P = partials(rows). dx and dgain_partials are not computed if undefined.
  Kernel<void(Stream&, Out<Tensor> dx, Out<Tensor> dgain_partials, const Tensor& dy, const Tensor& x,
              const Tensor& gain, const Tensor& inverse_rms, const Tensor& dresidual)>
      backward;
  /// Preferred number of partial sums on this backend, at least one. BiasKernels::backward adds them up.
  Kernel<int64_t(int64_t rows)> partials;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &RmsNormKernels::forward}, Named{"backward", &RmsNormKernels::backward},
                      Named{"partials", &RmsNormKernels::partials}};
  }
  static const RmsNormKernels of_reference, of_cpu, of_cuda;
};

/// Layer norm y = (x - mean) / sqrt(variance + eps) * gain + bias (Ba et al. 2016).
struct LayerNormKernels {
  /// Computes out and stats[rows, 2] (acc): mean and inverse standard deviation. `bias` may be undefined.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> stats, const Tensor& x, const Tensor& gain, const Tensor& bias,
              double eps)>
      forward;
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats)>
      input_gradient;
  /// Adds to dgain[D], dbias[D] (acc); dbias may be undefined.
  Kernel<void(Stream&, Out<Tensor> dgain, Out<Tensor> dbias, const Tensor& dy, const Tensor& x, const Tensor& stats)>
      weight_gradient;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &LayerNormKernels::forward},
                      Named{"input_gradient", &LayerNormKernels::input_gradient},
                      Named{"weight_gradient", &LayerNormKernels::weight_gradient}};
  }
  static const LayerNormKernels of_reference, of_cpu, of_cuda;
};

enum class Direction : uint8_t { forward, backward };

/// Queries [T, H, C] and keys [T, G, C] of the same tokens, or their gradients.
struct QueriesAndKeys {
  Tensor q, k;
  static constexpr auto tensors() { return std::array{&QueriesAndKeys::q, &QueriesAndKeys::k}; }
};

/// Rotary position embedding (Su et al. 2021), halves convention: dimension i is paired with i + C/2.
struct RotaryKernels {
  /// Computes out = x rotated by the angles of positions[T] (i32). Strided rows allowed for x. cosine, sine: [context,
  /// C/2] acc. `backward` rotates by the negative angle (the adjoint). out.q may be x.q, and out.k may be x.k. q or k
  /// may be undefined in both x and out.
  Kernel<void(Stream&, Out<QueriesAndKeys> out, const QueriesAndKeys& x, const Tensor& positions, const Tensor& cosine,
              const Tensor& sine, Direction direction)>
      apply;

  static constexpr auto entries() { return std::tuple{Named{"apply", &RotaryKernels::apply}}; }
  static const RotaryKernels of_reference, of_cpu, of_cuda;
};

/// Parameters of an attention call. A query at row i (position i + query_offset) of a sequence sees the keys j with
/// first[i] <= j < last[i], its own document. first and last are i32 [B, S]; undefined: the whole sequence. If causal,
/// also j <= i + query_offset.
struct AttentionShape {
  int64_t sequences, queries, keys;  // B, positions of q and of k, v per sequence
  double scale;                      // usually 1 / sqrt(C)
  bool causal = true;
  int64_t query_offset = 0;    // number of keys before the first query, for generation with a cache
  bool deterministic = false;  // backward gives the same bits every time; some backends are faster without it
  /// Number of documents in all sequences, if first and last divide each sequence into documents without gaps and all
  /// rows of a document have its range. 0: not counted, or arbitrary ranges. Some backends are faster if they have the
  /// number.
  int64_t documents = 0;
};

/// Gradients of the operands of AttentionKernels::forward.
struct AttentionGradients {
  Tensor dq, dk, dv;
  static constexpr auto tensors() {
    return std::array{&AttentionGradients::dq, &AttentionGradients::dk, &AttentionGradients::dv};
  }
};

/// Results and operands of AttentionKernels::forward that backward needs.
struct AttentionSaved {
  Tensor out, log_sum_exp, q, k, v;
  Tensor first{}, last{};
  static constexpr auto tensors() {
    return std::array{&AttentionSaved::out, &AttentionSaved::log_sum_exp, &AttentionSaved::q,   &AttentionSaved::k,
                      &AttentionSaved::v,   &AttentionSaved::first,       &AttentionSaved::last};
  }
};

/// Blockwise softmax(scale q k^T) v (Dao et al. 2022); no S x S matrix is kept. q, out: [B S, H, C]; k, v: [B S, G, C],
/// H a multiple of G (grouped queries). Strided rows allowed for q, k, v and their gradients.
struct AttentionKernels {
  /// Computes out and log_sum_exp [B S, H] (acc), which is kept for backward. A row that sees no key has a log-sum-exp
  /// of -inf and an output of zero.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> log_sum_exp, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& first, const Tensor& last, const AttentionShape& shape)>
      forward;
  Kernel<void(Stream&, Out<AttentionGradients> gradients, const Tensor& dout, const AttentionSaved& saved,
              const AttentionShape& shape)>
      backward;
  /// Merges attention to a block of further keys into sum[T, H, C] and sum_log_sum_exp[T, H] (both acc), the results
  /// for the keys so far. block[T, H, C] and block_log_sum_exp[T, H] (acc) are the block's results. Both results are
  /// merged by log-sum-exps (Liu et al. 2023, section 3). A row that saw no key of the block (-inf) does not change,
  /// regardless of the block's values in this row.
  Kernel<void(Stream&, Out<Tensor> sum, Out<Tensor> sum_log_sum_exp, const Tensor& block,
              const Tensor& block_log_sum_exp)>
      merge;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &AttentionKernels::forward}, Named{"backward", &AttentionKernels::backward},
                      Named{"merge", &AttentionKernels::merge}};
  }
  static const AttentionKernels of_reference, of_cpu, of_cuda;
};

/// Gradients of the operands of SwigluKernels::forward, and the product, computed again. product and dweights are not
/// computed if undefined.
struct SwigluGradients {
  Tensor dgate, dup;
  Tensor product{}, dweights{};
  static constexpr auto tensors() {
    return std::array{&SwigluGradients::dgate, &SwigluGradients::dup, &SwigluGradients::product,
                      &SwigluGradients::dweights};
  }
};

/// Operands of SwigluKernels::forward that backward needs.
struct SwigluSaved {
  Tensor gate, up;
  Tensor weights{};
  static constexpr auto tensors() { return std::array{&SwigluSaved::gate, &SwigluSaved::up, &SwigluSaved::weights}; }
};

/// Computes out = gate * sigmoid(gate) * up * weights (Shazeer 2020), with one weight per row [R] (acc; undefined:
/// one). If a linear map follows, weighting its operand here avoids keeping its results for the gradients of the
/// weights. Strided rows allowed for gate, up and their gradients.
struct SwigluKernels {
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& gate, const Tensor& up, const Tensor& weights)> forward;
  /// Computes the gradients of the weighted product: dgate, dup, dweights[R] (acc), and the product itself again. dgate
  /// may be gate or dout, dup may be up, product may be dout if dgate is not.
  Kernel<void(Stream&, Out<SwigluGradients> gradients, const Tensor& dout, const SwigluSaved& saved)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &SwigluKernels::forward}, Named{"backward", &SwigluKernels::backward}};
  }
  static const SwigluKernels of_reference, of_cpu, of_cuda;
};

/// Kind of GELU: out = x/2 (1 + erf(x / sqrt 2)) or its tanh approximation (Hendrycks & Gimpel 2016).
enum class GeluKind : uint8_t { exact, tanh };
constexpr auto enum_names(GeluKind) {
  return std::to_array<std::pair<GeluKind, std::string_view>>({{GeluKind::exact, "exact"}, {GeluKind::tanh, "tanh"}});
}
struct GeluKernels {
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, GeluKind kind)> forward;
  /// Computes dx, which may be x or dout.
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dout, const Tensor& x, GeluKind kind)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &GeluKernels::forward}, Named{"backward", &GeluKernels::backward}};
  }
  static const GeluKernels of_reference, of_cpu, of_cuda;
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
  double scale = 1.0;      // factor applied to the chosen weights after `normalize` (DeepSeek's routed scaling factor)
  int64_t groups = 1;      // group-limited: experts are in `groups` equal groups, and only the best `top_groups` groups
  int64_t top_groups = 1;  // (by the sum of their two best selection scores) are eligible
};

/// Scores, selection and weights, all in acc. Selection uses scores + bias (bias [E], may be undefined; it never
/// affects the weights). For ties the lower index is chosen. A NaN score is chosen last. ids are always in range.
struct RouterKernels {
  /// Computes from logits [T, E]: scores [T, E], ids [T, K] (i32, by falling selection score), weights [T, K].
  Kernel<void(Stream&, Out<Tensor> scores, Out<Tensor> ids, Out<Tensor> weights, const Tensor& logits,
              const Tensor& bias, const RouterRule& rule)>
      forward;
  /// Computes weights [T, K] for given ids (overridden routing).
  Kernel<void(Stream&, Out<Tensor> weights, const Tensor& ids, const Tensor& scores, const RouterRule& rule)> weigh;
  /// Computes dlogits [T, E] = gradient through weights (dweights [T, K]) and through scores (dscores [T, E], may be
  /// undefined).
  Kernel<void(Stream&, Out<Tensor> dlogits, const Tensor& dweights, const Tensor& dscores, const Tensor& scores,
              const Tensor& ids, const RouterRule& rule)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &RouterKernels::forward}, Named{"weigh", &RouterKernels::weigh},
                      Named{"backward", &RouterKernels::backward}};
  }
  static const RouterKernels of_reference, of_cpu, of_cuda;
};

/// Factors of a router's loss on a rank.
struct LossFactors {
  double scale = 1;   // of the sum over tokens
  double share = 1;   // share of the loss that is this rank's value
  double weight = 1;  // weight of that value in the loss of the model
};

/// A router's loss. Each product is rounded to acc: the loss, value = share * loss, weighted = weight * value.
struct RouterLoss {
  Tensor weighted;  // [1] acc
  Tensor total{};   // [1] f64, += value; may be undefined
  static constexpr auto tensors() { return std::array{&RouterLoss::weighted, &RouterLoss::total}; }
};

/// Statistics of a router's choices and the losses computed from them. A scope is a set of tokens. segment[T] (i32) is
/// the scope of each token, -1 for none (padding). If undefined, all tokens are in scope 0. The gradients of losses are
/// those of weight * loss, rounded to acc, without `share`.
struct RouterLossKernels {
  /// Computes counts[S, E] (i64) = slots of ids [T, K] (i32, -1: none) by scope and expert, and adds their sums over
  /// scopes to totals[E] (i64). One of the two may be undefined.
  Kernel<void(Stream&, Out<Tensor> counts, Out<Tensor> totals, const Tensor& ids, const Tensor& segment)> count;
  /// Computes fractions[S, E] (acc) = counts[S, E] (i64 or acc) divided by their sum in the scope; 1/E if that sum is
  /// zero.
  Kernel<void(Stream&, Out<Tensor> fractions, const Tensor& counts)> fractions;
  /// Computes the loss sum_t c_s <p_t, f_s> over tokens t of scopes s (Shazeer 2017; Fedus 2021, eq. 4). p_t =
  /// scores[t, :] divided by their sum; a row whose sum is zero contributes nothing. f_s = fractions[s, :] and c_s =
  /// scale * coefficients[s] (f64; undefined: ones). Summed in double in an order that depends only on the shape.
  Kernel<void(Stream&, Out<RouterLoss> loss, const Tensor& scores, const Tensor& segment, const Tensor& fractions,
              const Tensor& coefficients, const LossFactors& factors)>
      balance;
  /// Computes dscores[T, E] (acc) = dweighted[1] times the gradient of `balance`; zero rows for tokens in no scope.
  Kernel<void(Stream&, Out<Tensor> dscores, const Tensor& dweighted, const Tensor& scores, const Tensor& segment,
              const Tensor& fractions, const Tensor& coefficients, const LossFactors& factors)>
      balance_backward;
  /// Computes the loss scale times the sum over tokens in a scope of logsumexp(logits[t, :])^2 (Zoph et al. 2022, eq.
  /// 5), summed as above; log_sum_exp[T] (acc, 0 for tokens in no scope) is kept for backward.
  Kernel<void(Stream&, Out<RouterLoss> loss, Out<Tensor> log_sum_exp, const Tensor& logits, const Tensor& segment,
              const LossFactors& factors)>
      z;
  /// Computes dlogits[T, E] (acc) = dweighted[1] times the gradient of `z`.
  Kernel<void(Stream&, Out<Tensor> dlogits, const Tensor& dweighted, const Tensor& logits, const Tensor& log_sum_exp,
              const Tensor& segment, const LossFactors& factors)>
      z_backward;

  static constexpr auto entries() {
    return std::tuple{Named{"count", &RouterLossKernels::count},
                      Named{"fractions", &RouterLossKernels::fractions},
                      Named{"balance", &RouterLossKernels::balance},
                      Named{"balance_backward", &RouterLossKernels::balance_backward},
                      Named{"z", &RouterLossKernels::z},
                      Named{"z_backward", &RouterLossKernels::z_backward}};
  }
  static const RouterLossKernels of_reference, of_cpu, of_cuda;
};

/// Tokens that an expert over capacity keeps: the most probable, or the first.
enum class DropRule : uint8_t { probability, position };
constexpr auto enum_names(DropRule) {
  return std::to_array<std::pair<DropRule, std::string_view>>(
      {{DropRule::probability, "probability"}, {DropRule::position, "position"}});
}

/// Capacity of experts. An expert keeps at most min(ceil(factor K n / E), n) slots (GShard) from each scope of
/// `scope_tokens` consecutive tokens (the last may be shorter). n is the number of the scope's tokens with any slot.
struct Capacity {
  int64_t scope_tokens;  // > 0
  double factor;         // >= 0
  DropRule rule;
};

struct CapacityKernels {
  /// Sets ids [T, K] (i32; a token names an expert at most once) to -1 for slots over capacity. Keeps the slots with
  /// the highest scores [T, E] (acc; NaN counts as -infinity; ties keep the earlier token), or the earliest slots.
  /// Token t is row rows[t] (i64 [T]) of ids and scores; undefined: row t. Ids that name no expert do not change.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& scores, const Tensor& rows, const Capacity& capacity)> drop;

  static constexpr auto entries() { return std::tuple{Named{"drop", &CapacityKernels::drop}}; }
  static const CapacityKernels of_reference, of_cpu, of_cuda;
};

/// Masks slots of tokens and sorts slots by their experts.
struct SlotKernels {
  /// Sets ids[t, :] (i32 [T, K]) to -1 if valid[t] (u8) is zero.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& valid)> mask;
  /// Sorts the kept slots of ids [T, K] (i32, -1: dropped; others in [0, E)) by expert, then token, then slot.
  /// offsets[E + 1] (i64): rows of each expert. rows[T, K] (i64): the row of each slot, -1: dropped. tokens[T K] (i64):
  /// the token of each row, -1 for the rows from offsets[E] on, which belong to no expert.
  Kernel<void(Stream&, Out<Tensor> tokens, Out<Tensor> rows, Out<Tensor> offsets, const Tensor& ids)> sort;
  /// Computes keys that sort slots by chunk, then expert: keys[t, k] (i32) = c experts + ids[t, k] for ids [T, K].
  /// Chunk c of the slot is chunk_of[ids[t, k]] (i32 [experts]), or t chunks / T, rounded down, if chunk_of is
  /// undefined. -1 stays -1. An id that names no expert becomes chunks experts, which must fit i32. keys may be ids.
  Kernel<void(Stream&, Out<Tensor> keys, const Tensor& ids, const Tensor& chunk_of, int64_t experts, int64_t chunks)>
      keys;
  /// Computes out[i] (i64) = first + i.
  Kernel<void(Stream&, Out<Tensor> out, int64_t first)> iota;

  static constexpr auto entries() {
    return std::tuple{Named{"mask", &SlotKernels::mask}, Named{"sort", &SlotKernels::sort},
                      Named{"keys", &SlotKernels::keys}, Named{"iota", &SlotKernels::iota}};
  }
  static const SlotKernels of_reference, of_cpu, of_cuda;
};

/// Conversion of indices to other origins. out may be x if their dtypes are the same, unless stated otherwise.
struct IndexKernels {
  /// Computes out[i] = x[i] + by (both i32 or both i64). A negative x[i] is no index and does not change.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, int64_t by)> shift;
  /// Computes out[i] (i32 or i64) = x[i] - first if first <= x[i] < first + count, else -1; x is i32.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, int64_t first, int64_t count)> within;
  /// Computes out[i] = x[i] + parts[1, p] with parts [2, P]. p is the first part that ends after x[i]: x[i] < parts[0,
  /// p]. All i64. A negative x[i] does not change; all other x[i] are below the last part's end.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& parts)> shift_parts;
  /// Computes out[i] = i + parts[1, p], i.e. shift_parts of 0, 1, ..., with `parts` as in shift_parts. The last part
  /// ends at the number of elements of out, which may be zero.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& parts)> iota_parts;
  /// Computes out[i] = x[index[i]], all i64. out may be index.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index)> take;
  /// Computes out[x[i]] = i for non-negative x[i], which are distinct; all i64. Elements that no x names do not change.
  /// out may not be x.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x)> inverse;

  static constexpr auto entries() {
    return std::tuple{Named{"shift", &IndexKernels::shift},
                      Named{"within", &IndexKernels::within},
                      Named{"shift_parts", &IndexKernels::shift_parts},
                      Named{"iota_parts", &IndexKernels::iota_parts},
                      Named{"take", &IndexKernels::take},
                      Named{"inverse", &IndexKernels::inverse}};
  }
  static const IndexKernels of_reference, of_cpu, of_cuda;
};

/// Moves rows to experts and back. `rows` [T, K] (i64) is the row of the permuted tensor that holds slot k of token t;
/// -1: the slot was dropped. `tokens` [R] (i64) is the inverse: the token at row r; -1: none.
struct PermuteKernels {
  /// Computes out[r, :] = x[tokens[r], :]; rows without a token do not change. `rows` (may be undefined) is the
  /// inverse. A backend may use it instead, to read x once.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& tokens, const Tensor& rows)> gather;
  /// Computes out[t, :] = sum over k of weights[t, k] y[rows[t, k], :], in slot order in acc, then the addends [T, D]
  /// in their order. Undefined weights are one. This is the adjoint of `gather`, and the MoE layer's combine with its
  /// addends: shared experts, the residual. out may be an addend.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& y, const Tensor& rows, const Tensor& weights,
              std::span<const Tensor> addends)>
      combine;
  /// Computes dy[rows[t, k], :] = weights[t, k] dout[t, :] and dweights[t, k] = <dout[t, :], y[rows[t, k], :]> (0 if
  /// dropped). Rows of dy that no slot names are zero. `tokens` (may be undefined) is the inverse of rows. A backend
  /// may use it to find these rows.
  Kernel<void(Stream&, Out<Tensor> dy, Out<Tensor> dweights, const Tensor& dout, const Tensor& y, const Tensor& rows,
              const Tensor& tokens, const Tensor& weights)>
      combine_backward;
  /// Computes out[index[r], :] = x[r, :] for distinct rows index[R] (i64; -1: row r is not copied), the inverse of
  /// `gather` over a part of the rows. Rows of out that no index names do not change. Strided rows allowed, here and in
  /// the two entries below.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index)> scatter;
  /// Computes out[r, :] = scale[r] x[index[r], :] with index[R] (i64) and scale[R] (acc; undefined: one, a copy). This
  /// is the part of `combine_backward` that computes dy, for any part of the rows. out may be x if index[r] = r.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index, const Tensor& scale)> gather_weighted;
  /// Computes out[r] (acc) = <a[r, :], b[r, :]>, summed in an order that depends only on the width.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& a, const Tensor& b)> row_dots;

  static constexpr auto entries() {
    return std::tuple{Named{"gather", &PermuteKernels::gather},
                      Named{"combine", &PermuteKernels::combine},
                      Named{"combine_backward", &PermuteKernels::combine_backward},
                      Named{"scatter", &PermuteKernels::scatter},
                      Named{"gather_weighted", &PermuteKernels::gather_weighted},
                      Named{"row_dots", &PermuteKernels::row_dots}};
  }
  static const PermuteKernels of_reference, of_cpu, of_cuda;
};

/// Converts rows of tensors to bytes and back (framework/kernels/wire.h). Strided rows allowed for x and out.
struct WireKernels {
  /// Computes bytes[R, wire_row_bytes(format, dtype of x, D, X)] (u8) from the rows of x[R', D] that index[R] (i64)
  /// names, and from row_weights[R, X] (acc), which belong to position r. If index is undefined, row r of x is used,
  /// and R = R'. If row_weights is undefined, X = 0. fp8: codes of x / scale in float with scale = max(max |row| / 448,
  /// 2^-126), 0 for a row of zeros; f64 is converted through float. In a row with an element that is not finite (in
  /// float), all elements and the scale become NaN, so that the receiver detects the row.
  Kernel<void(Stream&, Out<Tensor> bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
              WireFormat format)>
      pack;
  /// Computes out[index[r], :] = scale * value for distinct rows index[R]. If index is undefined, out[r, :] is
  /// computed, and out has R rows. All other rows of out do not change. row_weights_out[R, X] receives the row_weights
  /// of each position r. If it is undefined, the row_weights are not read, and X may be any number.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> row_weights_out, const Tensor& bytes, const Tensor& index,
              WireFormat format)>
      unpack;

  static constexpr auto entries() {
    return std::tuple{Named{"pack", &WireKernels::pack}, Named{"unpack", &WireKernels::unpack}};
  }
  static const WireKernels of_reference, of_cpu, of_cuda;
};

struct EmbeddingKernels {
  /// Computes out[T, D] = table[ids[t], :] (ids i32, checked by the caller).
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& table, const Tensor& ids)> forward;
  /// Computes dtable (acc) [V, D] += dout rows, in token order. A token of id -1 is skipped, and its row is not read.
  Kernel<void(Stream&, Out<Tensor> dtable, const Tensor& dout, const Tensor& ids)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &EmbeddingKernels::forward}, Named{"backward", &EmbeddingKernels::backward}};
  }
  static const EmbeddingKernels of_reference, of_cpu, of_cuda;
};

/// Softmax cross-entropy over rows of logits [T, V] (acc); targets i32, -1: ignored.
struct CrossEntropyKernels {
  /// Computes losses[T] (acc, 0 if ignored). dlogits[T, V] (any floating dtype; not computed if undefined) = scale *
  /// (softmax - onehot), zero rows if ignored or if scale is 0. dlogits may be logits.
  Kernel<void(Stream&, Out<Tensor> losses, Out<Tensor> dlogits, const Tensor& logits, const Tensor& targets,
              double scale)>
      forward;
  /// Preferred number of rows whose logits are in memory at a time, if logits are never kept whole; at least one.
  Kernel<int64_t(int64_t rows, int64_t vocabulary)> chunk_rows;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &CrossEntropyKernels::forward},
                      Named{"chunk_rows", &CrossEntropyKernels::chunk_rows}};
  }
  static const CrossEntropyKernels of_reference, of_cpu, of_cuda;
};

/// Softmax cross-entropy over columns that are split over ranks, in two steps with an exchange between them. Each rank
/// reads its logits once. `targets` [T] (i32, -1: ignored) refer to the whole vocabulary, of which this rank holds the
/// columns [first, first + W).
struct SplitSoftmaxKernels {
  /// Statistics that a rank sends to the other ranks for each row of its columns: rows of statistics [statistics_count,
  /// T].
  enum Statistic : int64_t {
    largest,    // m = max of the logits
    total,      // the sum of e^(logit - m)
    at_target,  // the target's logit; 0 on ranks that do not hold it
    statistics_count,
  };
  /// Computes statistics [3, T] from logits[T, W] (both acc); the logits become e^(logit - m).
  Kernel<void(Stream&, Out<Tensor> statistics, Out<Tensor> logits, const Tensor& targets, int64_t first)> start;
  /// Computes losses[T] (acc, 0 if ignored) from the statistics of all ranks [ranks, 3, T], of which this rank is
  /// `rank`. The values that `start` left in `logits` become scale * (softmax - onehot); zero if ignored or if scale is
  /// 0.
  Kernel<void(Stream&, Out<Tensor> losses, Out<Tensor> logits, const Tensor& statistics, int64_t rank,
              const Tensor& targets, int64_t first, double scale)>
      finish;

  static constexpr auto entries() {
    return std::tuple{Named{"start", &SplitSoftmaxKernels::start}, Named{"finish", &SplitSoftmaxKernels::finish}};
  }
  static const SplitSoftmaxKernels of_reference, of_cpu, of_cuda;
};

/// Elementwise kernels and reductions.
struct PointwiseKernels {
  Kernel<void(Stream&, Out<Tensor> out, double value)> fill;
  /// Computes out = x with another dtype or strides (strided rows).
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x)> copy;
  /// Computes out = a + b. out may be a or b.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& a, const Tensor& b)> add;
  /// Computes out += alpha * x; out may be acc while x is bf16.
  Kernel<void(Stream&, Out<Tensor> out, double alpha, const Tensor& x)> axpy;
  Kernel<void(Stream&, Out<Tensor> out, double alpha)> scale;
  /// Computes out = min(max(x, -limit), limit); backward passes dout where |x| <= limit.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, double limit)> clamp;
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dout, const Tensor& x, double limit)> clamp_backward;
  /// Computes out[1] (acc or f64) = or += the sum of all elements, in double, in an order that depends only on their
  /// number.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, Write write)> sum;
  /// Computes out = addends[0] + addends[1] + ..., in this order in acc, bitwise identical to the sum over ranks of
  /// comm::reduce. At least one addend, on CUDA at most 64; all have one dtype. out may be an addend.
  Kernel<void(Stream&, Out<Tensor> out, std::span<const Tensor> addends)> sum_of;

  static constexpr auto entries() {
    return std::tuple{Named{"fill", &PointwiseKernels::fill},
                      Named{"copy", &PointwiseKernels::copy},
                      Named{"add", &PointwiseKernels::add},
                      Named{"axpy", &PointwiseKernels::axpy},
                      Named{"scale", &PointwiseKernels::scale},
                      Named{"clamp", &PointwiseKernels::clamp},
                      Named{"clamp_backward", &PointwiseKernels::clamp_backward},
                      Named{"sum", &PointwiseKernels::sum},
                      Named{"sum_of", &PointwiseKernels::sum_of}};
  }
  static const PointwiseKernels of_reference, of_cpu, of_cuda;
};

/// AdamW (Loshchilov & Hutter 2019), decoupled decay: w -= lr (m^ / (sqrt(v^) + eps) + decay w).
struct AdamwStep {
  double lr, beta1, beta2, eps;
  int64_t step;  // the first step is 1
};

/// Part of one parameter that one launch updates. The tensors are flat and have the same length. main is acc; the
/// gradient is acc or bf16. m and v are acc, or both are bf16 beside an f32 main. `weights` (the model's copy, any
/// float dtype) receives the rounded result; it may be main.
///
/// All arithmetic is in acc, and main's update uses m and v before they are rounded. Moments in bf16 are rounded at
/// random (base::bf16_bits_at_random). The bits of an element are base::random_bits(rounding_key, its index in the
/// whole parameter, modulo 2^32): the lower half for m, the upper half for v.
struct AdamwSlice {
  Tensor main, m, v, weights, gradient;
  double weight_decay;
  base::GlobalIndex place{};  // of the elements in the whole parameter
  uint32_t rounding_key = 0;
};

/// True if the moments are in bf16. Throws std::logic_error unless both are in main's dtype, or in bf16 beside f32.
bool has_bf16_moments(const AdamwSlice& slice);

/// Optimizer updates. `factor` [1] (f64; undefined: one) is multiplied into the gradients as they are read. A negative
/// factor skips the step: nothing is written.
struct OptimizerKernels {
  Kernel<void(Stream&, Out<std::span<const AdamwSlice>> slices, const AdamwStep& step, const Tensor& factor)> adamw;
  /// Plain SGD: main -= lr * factor * gradient; weights = main.
  Kernel<void(Stream&, Out<Tensor> main, Out<Tensor> weights, const Tensor& gradient, double lr, const Tensor& factor)>
      sgd;
  /// Computes out[1] (f64) = or += the sum of squares, in an order that depends only on the number of elements.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, Write write)> squared_norm;
  /// Computes factor[1] (f64) = min(1, limit / sqrt(sums[0])), or 1 if limit is 0; -1 if any of sums[n] (f64) is not
  /// finite. sums holds the squared norm of all gradients, then other values that must be finite; otherwise the step is
  /// skipped.
  Kernel<void(Stream&, Out<Tensor> factor, const Tensor& sums, double limit)> clip;

  static constexpr auto entries() {
    return std::tuple{Named{"adamw", &OptimizerKernels::adamw}, Named{"sgd", &OptimizerKernels::sgd},
                      Named{"squared_norm", &OptimizerKernels::squared_norm}, Named{"clip", &OptimizerKernels::clip}};
  }
  static const OptimizerKernels of_reference, of_cpu, of_cuda;
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

  static constexpr auto families() {
    return std::tuple{Named{"matmul", &KernelTable::matmul},
                      Named{"grouped_matmul", &KernelTable::grouped_matmul},
                      Named{"bias", &KernelTable::bias},
                      Named{"rms_norm", &KernelTable::rms_norm},
                      Named{"layer_norm", &KernelTable::layer_norm},
                      Named{"rotary", &KernelTable::rotary},
                      Named{"attention", &KernelTable::attention},
                      Named{"swiglu", &KernelTable::swiglu},
                      Named{"gelu", &KernelTable::gelu},
                      Named{"router", &KernelTable::router},
                      Named{"router_loss", &KernelTable::router_loss},
                      Named{"capacity", &KernelTable::capacity},
                      Named{"slots", &KernelTable::slots},
                      Named{"index", &KernelTable::index},
                      Named{"permute", &KernelTable::permute},
                      Named{"wire", &KernelTable::wire},
                      Named{"embedding", &KernelTable::embedding},
                      Named{"cross_entropy", &KernelTable::cross_entropy},
                      Named{"split_softmax", &KernelTable::split_softmax},
                      Named{"pointwise", &KernelTable::pointwise},
                      Named{"optimizer", &KernelTable::optimizer}};
  }
};

extern const KernelTable reference_table;  // naive loops in double, the definition of each kernel
/// Fast kernels on threads. Results depend neither on the number of threads nor, for a row, on other rows.
extern const KernelTable cpu_table;
extern const KernelTable emulated_table;  // the CPU's kernels, queued on the emulated device
/// Returns the CUDA table. Throws Error(usage) in a program that was built without CUDA.
const KernelTable& cuda_kernels();
/// Returns the table of the device's backend.
const KernelTable& kernels(const Device& device);

}  // namespace hexad::kernels
