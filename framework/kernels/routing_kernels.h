// Kernels that choose experts, and send rows to them and back. The legend of shapes is in kernel_operands.h.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "framework/kernels/kernel.h"
#include "framework/kernels/kernel_operands.h"
#include "framework/kernels/wire.h"

namespace hexad::kernels {

enum class RouterScore : uint8_t { softmax, sigmoid };
constexpr auto enum_names(RouterScore) {
  return std::to_array<std::pair<RouterScore, std::string_view>>(
      {{RouterScore::softmax, "softmax"}, {RouterScore::sigmoid, "sigmoid"}});
}

/// Score by which a group-limited router ranks groups of experts: the sum of the two largest values of score + bias in
/// the group, or the largest value.
enum class RouterGroupScore : uint8_t { best_two, best };
constexpr auto enum_names(RouterGroupScore) {
  return std::to_array<std::pair<RouterGroupScore, std::string_view>>(
      {{RouterGroupScore::best_two, "best_two"}, {RouterGroupScore::best, "best"}});
}

/// Rule by which a router chooses experts and computes their weights.
struct RouterRule {
  RouterScore score = RouterScore::softmax;
  int64_t top_k = 2;
  bool normalize = true;       // true: the weights of the chosen experts are divided by their sum
  double normalize_floor = 0;  // minimum divisor; no gradient flows through a smaller sum
  double scale = 1.0;  // factor that multiplies the weights after `normalize` (DeepSeek's routed scaling factor)
  /// Group-limited choice: the experts form `groups` equal groups. A token may use only experts of the top_groups
  /// groups with the largest scores. `group_score` is best_two in DeepSeek-V3, and best in the device-limited routing
  /// of DeepSeek-V2.
  int64_t groups = 1;
  int64_t top_groups = 1;
  RouterGroupScore group_score = RouterGroupScore::best_two;
};

/// Scores of experts, chosen experts and their weights. All operands except ids are acc. Experts are chosen by score +
/// bias. bias[E] may be undefined and never affects the weights. The lower index wins a tie. An expert with a NaN score
/// is chosen last. The ids that forward computes are always in range.
struct RouterKernels {
  /// Computes from logits [T, E]: scores [T, E], ids [T, K] (i32, by descending score + bias), and weights [T, K].
  Kernel<void(Stream&, Out<Tensor> scores, Out<Tensor> ids, Out<Tensor> weights, const Tensor& logits,
              const Tensor& bias, const RouterRule& rule)>
      forward;
  /// Computes weights [T, K] for given ids (forced routing).
  Kernel<void(Stream&, Out<Tensor> weights, const Tensor& ids, const Tensor& scores, const RouterRule& rule)> weigh;
  /// Computes dlogits [T, E], the sum of two gradients: through the weights, from dweights [T, K], and through the
  /// scores, from dscores [T, E]. dscores may be undefined.
  Kernel<void(Stream&, Out<Tensor> dlogits, const Tensor& dweights, const Tensor& dscores, const Tensor& scores,
              const Tensor& ids, const RouterRule& rule)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &RouterKernels::forward}, Named{"weigh", &RouterKernels::weigh},
                      Named{"backward", &RouterKernels::backward}};
  }
  static const RouterKernels of_reference, of_cpu, of_cuda;
};

/// Weights of SparseMixer without its sampling (Liu et al. 2023, arXiv 2310.00811; Phi-3.5-MoE in evaluation). The
/// candidates of slot k are all experts except the experts of slots 0 .. k-1. Let `best` be the largest logit of the
/// candidates. A candidate with logit x is near if best - x <= tolerance * max(|x|, best). The weight of the slot is
/// the softmax of its expert's logit over the near candidates and this expert. The ids of a token are in [0, E) and
/// distinct.
struct SparseMixerKernels {
  /// Computes weights [T, K] (acc) from logits [T, E] (acc) and ids [T, K] (i32).
  Kernel<void(Stream&, Out<Tensor> weights, const Tensor& logits, const Tensor& ids, double tolerance)> forward;
  /// Computes dlogits [T, E] (acc). The sets of near candidates are constants.
  Kernel<void(Stream&, Out<Tensor> dlogits, const Tensor& dweights, const Tensor& logits, const Tensor& ids,
              double tolerance)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &SparseMixerKernels::forward}, Named{"backward", &SparseMixerKernels::backward}};
  }
  static const SparseMixerKernels of_reference, of_cpu, of_cuda;
};

/// Returns the number of tokens that each of `experts` experts chooses in a scope of `tokens` tokens:
/// min(ceil(factor * slots * tokens / experts), tokens). Each token has `slots` slots. See ExpertChoiceKernels.
inline int64_t tokens_of_expert(int64_t tokens, int64_t slots, int64_t experts, double factor) {
  const double mean = static_cast<double>(slots * tokens) / static_cast<double>(experts);
  // Limits the result before the cast, because a huge factor gives a result that exceeds every integer type.
  return static_cast<int64_t>(std::min(static_cast<double>(tokens), std::ceil(factor * mean)));
}

/// Selection of tokens by experts (Zhou et al. 2022, "Mixture-of-Experts with Expert Choice Routing"). A token keeps at
/// most K of the experts that choose it. Its other slots are empty.
struct ExpertChoiceKernels {
  /// Computes ids [T, K] (i32; -1: empty slot) from scores [T, E] (acc). A scope consists of `scope_tokens` consecutive
  /// tokens; the last scope may be shorter. In a scope of n tokens, every expert chooses tokens_of_expert(n, K, E,
  /// factor) tokens. The expert chooses the tokens with the highest scores (NaN counts as -infinity; the earlier token
  /// wins a tie). A token keeps the experts with its highest scores, in descending order (the lower index wins a tie).
  /// Token t is in row rows[t] (i64 [T]) of ids and scores, or in row t if `rows` is undefined. A token with rows[t] =
  /// -1 is padding, which is not among the n tokens. Rows without a token have only empty slots.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& scores, const Tensor& rows, int64_t scope_tokens, double factor)>
      choose;
  /// Computes weights[t, k] = scores[t, ids[t, k]], or 0 for an empty slot.
  Kernel<void(Stream&, Out<Tensor> weights, const Tensor& scores, const Tensor& ids)> forward;
  /// Computes dscores [T, E] from dweights [T, K]. The ids of a token that are not -1 are distinct.
  Kernel<void(Stream&, Out<Tensor> dscores, const Tensor& dweights, const Tensor& ids)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"choose", &ExpertChoiceKernels::choose}, Named{"forward", &ExpertChoiceKernels::forward},
                      Named{"backward", &ExpertChoiceKernels::backward}};
  }
  static const ExpertChoiceKernels of_reference, of_cpu, of_cuda;
};

/// Factors of a router's loss on a rank.
struct LossFactors {
  double scale = 1;   // factor of the sum over tokens
  double share = 1;   // this rank's value, as a fraction of the loss
  double weight = 1;  // weight of this value in the loss of the model
};

/// A router's loss. Each product is rounded to acc: loss = scale * sum, value = share * loss, weighted = weight *
/// value.
struct RouterLoss {
  Tensor weighted;  // [1] acc
  Tensor total{};   // [1] f64, to which the value is added; may be undefined
  static constexpr auto tensors() { return std::array{&RouterLoss::weighted, &RouterLoss::total}; }
};

/// Statistics of routing, and the losses computed from them. A scope is a set of tokens. segment[T] (i32) is the scope
/// of each token; -1 means no scope (padding). If `segment` is undefined, all tokens are in scope 0. The kernels
/// compute the gradients of weight * loss, without `share`, rounded to acc.
struct RouterLossKernels {
  /// Sets counts[S, E] (i64) to the number of slots in ids [T, K] (i32, -1: none) by scope and expert. S is the number
  /// of scopes. Adds the sums over scopes to totals[E] (i64). Either counts or totals may be undefined.
  Kernel<void(Stream&, Out<Tensor> counts, Out<Tensor> totals, const Tensor& ids, const Tensor& segment)> count;
  /// Sets fractions[S, E] (acc) to counts[S, E] (i64 or acc) divided by their sum in the scope, or to 1/E if this sum
  /// is zero.
  Kernel<void(Stream&, Out<Tensor> fractions, const Tensor& counts)> fractions;
  /// Computes the loss sum_t c_s * <p_t, f_s> over all tokens t that are in a scope s (Shazeer 2017; Fedus 2021, eq.
  /// 4). p_t is scores[t, :] divided by its sum. A row whose sum is zero contributes nothing. f_s is fractions[s, :].
  /// c_s is scale * coefficients[s] (f64; all 1 if undefined). The sum is in double, in an order that depends only on
  /// the shape.
  Kernel<void(Stream&, Out<RouterLoss> loss, const Tensor& scores, const Tensor& segment, const Tensor& fractions,
              const Tensor& coefficients, const LossFactors& factors)>
      balance;
  /// Computes dscores[T, E] (acc) = dweighted[1] times the gradient of `balance`. Rows of tokens in no scope are zero.
  Kernel<void(Stream&, Out<Tensor> dscores, const Tensor& dweighted, const Tensor& scores, const Tensor& segment,
              const Tensor& fractions, const Tensor& coefficients, const LossFactors& factors)>
      balance_backward;
  /// Computes the loss scale * sum of logsumexp(logits[t, :])^2 over all tokens t that are in a scope (Zoph et al.
  /// 2022, eq. 5), summed like `balance`. Also computes log_sum_exp[T] (acc; 0 for tokens in no scope), which
  /// z_backward needs.
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

/// Rule by which an expert that exceeds its capacity keeps slots: the slots with the highest scores, or the first
/// slots.
enum class DropRule : uint8_t { probability, position };
constexpr auto enum_names(DropRule) {
  return std::to_array<std::pair<DropRule, std::string_view>>(
      {{DropRule::probability, "probability"}, {DropRule::position, "position"}});
}

/// Capacity of experts. A scope consists of `scope_tokens` consecutive tokens; the last scope may be shorter. In each
/// scope, an expert keeps at most min(ceil(factor * K * n / E), n) slots (GShard). n is the number of tokens of the
/// scope that have at least one slot.
struct Capacity {
  int64_t scope_tokens;  // > 0
  double factor;         // >= 0
  DropRule rule;
};

struct CapacityKernels {
  /// Sets the elements of ids [T, K] (i32; each token selects an expert at most once) to -1 for slots that exceed the
  /// capacity. Keeps the slots with the highest scores [T, E] (acc), or the earliest slots, depending on `rule`. A NaN
  /// score counts as -infinity, and the earlier token wins a tie. Token t is in row rows[t] (i64 [T]) of ids and
  /// scores, or in row t if `rows` is undefined. Elements that are not the id of an expert do not change.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& scores, const Tensor& rows, const Capacity& capacity)> drop;

  static constexpr auto entries() { return std::tuple{Named{"drop", &CapacityKernels::drop}}; }
  static const CapacityKernels of_reference, of_cpu, of_cuda;
};

/// Masks slots of tokens, and sorts slots by expert.
struct SlotKernels {
  /// Sets ids[t, :] (i32 [T, K]) to -1 for each token t with valid[t] (u8) = 0.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& valid)> mask;
  /// Sorts the slots of ids [T, K] (i32; -1: dropped, otherwise in [0, E)) by expert, then token, then slot. The
  /// results are i64:
  ///
  ///   offsets[E + 1]   offsets of the rows of each expert
  ///   rows[T, K]       row of each slot; -1: dropped
  ///   tokens[T * K]    token of each row; -1 for rows from offsets[E] on, which belong to no expert
  Kernel<void(Stream&, Out<Tensor> tokens, Out<Tensor> rows, Out<Tensor> offsets, const Tensor& ids)> sort;
  /// Computes keys that sort slots first by chunk, then by expert: keys[t, k] (i32) = c * experts + ids[t, k] for ids
  /// [T, K]. c is the chunk of the slot: chunk_of[ids[t, k]] (i32 [experts]) or, if chunk_of is undefined, t * chunks /
  /// T rounded down. The key of an id of -1 is -1. The key of any other id outside [0, experts) is chunks * experts,
  /// which must fit in i32. keys may be ids.
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

/// Conversions of indices. out may be x if both have the same dtype and the comment of the entry does not forbid it.
struct IndexKernels {
  /// Computes out[i] = x[i] + by (both i32 or both i64). A negative x[i] is not an index and does not change.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, int64_t by)> shift;
  /// Computes out[i] (i32 or i64) = x[i] - first if first <= x[i] < first + count, otherwise -1. x is i32.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, int64_t first, int64_t count)> within;
  /// Computes out[i] = x[i] + parts[1, p] for parts [2, P]. p is the first part whose end parts[0, p] exceeds x[i]. All
  /// tensors are i64. A negative x[i] does not change. Every other x[i] must be below the end of the last part.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& parts)> shift_parts;
  /// Computes out[i] = i + parts[1, p], the result of shift_parts for x = 0, 1, ... The last part must end at the
  /// number of elements of out, which may be zero.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& parts)> iota_parts;
  /// Computes out[i] = x[index[i]]. All tensors are i64. out may be index, but must not be x.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index)> take;
  /// Computes out[x[i]] = i for each x[i] >= 0. These x[i] must be distinct. Both tensors are i64. Other elements of
  /// out do not change. out must not be x.
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

/// Copies rows to experts and back. rows[t, k] (i64 [T, K]) is the row of the permuted tensor for slot k of token t, or
/// -1 if the slot was dropped. tokens[r] (i64 [R]) is the inverse: the token of row r, or -1 if the row has no token.
struct PermuteKernels {
  /// Computes out[r, :] = x[tokens[r], :]. Rows without a token do not change. `rows`, the inverse of `tokens`, may be
  /// undefined. A backend may use `rows` to read x only once.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& tokens, const Tensor& rows)> gather;
  /// Computes out[t, :] = sum over k of weights[t, k] * y[rows[t, k], :] in acc, in the order of the slots. Then adds
  /// the addends [T, D] in their order. If `weights` is undefined, all weights are 1. Without weights and addends,
  /// `combine` is the adjoint of `gather`. The MoE layer passes the outputs of shared experts and the residual as
  /// addends. out may be an addend. On CUDA, at most 4 addends are allowed.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& y, const Tensor& rows, const Tensor& weights,
              std::span<const Tensor> addends)>
      combine;
  /// Computes dy[rows[t, k], :] = weights[t, k] * dout[t, :] and dweights[t, k] = <dout[t, :], y[rows[t, k], :]> (0 if
  /// the slot was dropped). Rows of dy that belong to no slot are set to zero. `tokens`, the inverse of `rows`, may be
  /// undefined; a backend may use `tokens` to find these rows.
  Kernel<void(Stream&, Out<Tensor> dy, Out<Tensor> dweights, const Tensor& dout, const Tensor& y, const Tensor& rows,
              const Tensor& tokens, const Tensor& weights)>
      combine_backward;
  /// Computes out[index[r], :] = x[r, :] for distinct index[R] (i64; -1: row r is not copied). This is the inverse of
  /// `gather` for some of the rows. Other rows of out do not change. In this entry and the two entries below, tensors
  /// may have strided rows.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index)> scatter;
  /// Computes out[r, :] = scale[r] * x[index[r], :] with index[R] (i64) and scale[R] (acc; all 1 if undefined).
  /// `combine_backward` computes dy by the same formula, but for all rows. out may be x if index[r] = r for all r.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index, const Tensor& scale)> gather_weighted;
  /// Computes out[r] (acc) = <a[r, :], b[r, :]>. The order of addition depends only on the width.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& a, const Tensor& b)> row_dots;
  /// `put` and `pull` copy rows to and from the windows of several ranks (comm::Windows). `window` (any dtype) is this
  /// rank's window. distances[P] (i64) are the distances in bytes from this window to the windows of all ranks, and are
  /// multiples of 16. runs[3, N] (i64) defines the place of each row: rows [runs[0, n - 1], runs[0, n]) are in the
  /// window of rank runs[1, n]. For n = 0, the range begins at row 0. Within its window, row r of R is the row of D
  /// elements with index r + runs[2, n]. The last run ends at R. Kernels do not check that places are inside the
  /// windows, because the windows may be in the memory of other ranks. x and out may have strided rows.
  ///
  /// Copies x[index[r], :] to the place of each row r. If `index` (i64 [R]) is undefined, copies x[r, :].
  Kernel<void(Stream&, Out<Tensor> window, const Tensor& distances, const Tensor& runs, const Tensor& x,
              const Tensor& index)>
      put;
  /// Computes out[r, :] = the row at the place of row r.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& window, const Tensor& distances, const Tensor& runs)> pull;

  static constexpr auto entries() {
    return std::tuple{Named{"gather", &PermuteKernels::gather},
                      Named{"combine", &PermuteKernels::combine},
                      Named{"combine_backward", &PermuteKernels::combine_backward},
                      Named{"scatter", &PermuteKernels::scatter},
                      Named{"gather_weighted", &PermuteKernels::gather_weighted},
                      Named{"row_dots", &PermuteKernels::row_dots},
                      Named{"put", &PermuteKernels::put},
                      Named{"pull", &PermuteKernels::pull}};
  }
  static const PermuteKernels of_reference, of_cpu, of_cuda;
};

/// Converts rows of tensors to bytes and back (framework/kernels/wire.h). x and out may have strided rows.
struct WireKernels {
  /// Computes bytes[R, wire_row_bytes(format, dtype of x, D, X)] (u8). Row r of bytes contains row index[r] of x[R', D]
  /// and row r of row_weights[R, X] (acc). `index` is i64 [R]. If it is undefined, row r of bytes contains row r of x,
  /// and R = R'. If index[r] is -1, row r of bytes is set to zero. If `row_weights` is undefined, X = 0.
  ///
  /// In format fp8, the values are the e4m3 codes of x / scale, computed in f32. scale is max(max |row| / 448, 2^-126),
  /// or 0 for a row of zeros. f64 is first converted to f32. If an element of a row is not finite in f32, the row's
  /// scale and all its values are NaN. The receiver then gets no wrong finite values.
  Kernel<void(Stream&, Out<Tensor> bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
              WireFormat format)>
      pack;
  /// Computes out[index[r], :] = the values of row r of bytes (format fp8: times the row's scale). If index[r] is -1,
  /// row r is not copied. All other entries of index[R] must be distinct. If `index` is undefined, computes out[r, :],
  /// and out has R rows. Other rows of out do not change. row_weights_out[R, X] receives the row_weights of each row r.
  /// If row_weights_out is undefined, the row_weights are not read, and X may be any number.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> row_weights_out, const Tensor& bytes, const Tensor& index,
              WireFormat format)>
      unpack;

  static constexpr auto entries() {
    return std::tuple{Named{"pack", &WireKernels::pack}, Named{"unpack", &WireKernels::unpack}};
  }
  static const WireKernels of_reference, of_cpu, of_cuda;
};

/// Families of this header.
struct RoutingFamilies {
  RouterKernels router;
  SparseMixerKernels sparse_mixer;
  ExpertChoiceKernels expert_choice;
  RouterLossKernels router_loss;
  CapacityKernels capacity;
  SlotKernels slots;
  IndexKernels index;
  PermuteKernels permute;
  WireKernels wire;

  static constexpr auto families() {
    return std::tuple{Named{"router", &RoutingFamilies::router},
                      Named{"sparse_mixer", &RoutingFamilies::sparse_mixer},
                      Named{"expert_choice", &RoutingFamilies::expert_choice},
                      Named{"router_loss", &RoutingFamilies::router_loss},
                      Named{"capacity", &RoutingFamilies::capacity},
                      Named{"slots", &RoutingFamilies::slots},
                      Named{"index", &RoutingFamilies::index},
                      Named{"permute", &RoutingFamilies::permute},
                      Named{"wire", &RoutingFamilies::wire}};
  }
};

}  // namespace hexad::kernels
