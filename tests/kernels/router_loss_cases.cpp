#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
using L = RouterLossKernels;
constexpr int64_t scopes = 3;
constexpr LossFactors factors{.scale = 0.37, .share = 0.5, .weight = 3};

// Returns two tensors: segments that leave some tokens out of all scopes, and an undefined tensor, which puts all
// tokens into the first scope.
std::vector<Tensor> segments(Trial& r) {
  std::vector<int32_t> segment;
  for (int64_t t = 0; t < r.size.rows; ++t) segment.push_back(t % 5 == 4 ? -1 : static_cast<int32_t>(t * 7 % scopes));
  return {r.values<int32_t>(segment, {r.size.rows}), Tensor{}};
}

// Returns a copy of `x` that is compared after the call.
Tensor updated(Trial& r, const Tensor& x) {
  const Tensor t = r.output(x.shape(), x.dtype());
  reference_table.pointwise.copy(r.host_stream, t, x);
  return t;
}

// Operands with size.width experts. All scores of the first token are zero, as after an underflow, if there are more
// than two tokens.
struct Operands {
  int64_t tokens, experts;
  Tensor scores, fractions, coefficients;

  explicit Operands(Trial& r)
      : tokens(r.size.rows),
        experts(r.size.width),
        scores(r.scratch({tokens, experts}, r.acc())),
        fractions(r.normal({scopes, experts}, r.acc())),
        coefficients(r.values<double>({0.5, 2, -0.125}, {scopes})) {
    const RouterRule rule{.score = RouterScore::sigmoid, .top_k = 1};
    reference_table.router.forward(r.host_stream, scores, r.scratch({tokens, 1}, Dtype::i32),
                                   r.scratch({tokens, 1}, r.acc()), r.normal({tokens, experts}, r.acc()), {}, rule);
    if (tokens > 2) reference_table.pointwise.fill(r.host_stream, scores.slice(0, 0, 1), 0);
  }
};

void count(K k, Trial& r) {
  constexpr int64_t slots = 3;
  const auto [tokens, experts] = r.size;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < slots * tokens; ++i)
    ids.push_back(i % 7 == 3 ? -1 : static_cast<int32_t>((i * 31 + i / 5) % experts));
  const Tensor slots_of = r.values<int32_t>(ids, {tokens, slots});
  for (const Tensor& segment : segments(r)) {
    const auto counts = [&] { return r.output({scopes, experts}, Dtype::i64); };
    const auto totals = [&] { return updated(r, r.integers({experts}, Dtype::i64, 100)); };
    k.router_loss.count(r.stream, counts(), {}, slots_of, segment);
    k.router_loss.count(r.stream, {}, totals(), slots_of, segment);
    k.router_loss.count(r.stream, counts(), totals(), slots_of, segment);
  }
}

// Computes fractions. All counts of the last scope are zero.
void fractions(K k, Trial& r) {
  const int64_t experts = r.size.width;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < scopes * experts; ++i) values.push_back(i < 2 * experts ? 1 + i * 29 % 11 : 0);
  const Tensor counts = r.values<int64_t>(values, {scopes, experts}), wide = r.scratch({scopes, experts}, r.acc());
  reference_table.pointwise.copy(r.host_stream, wide, counts);
  for (const Tensor& given : {counts, wide})
    k.router_loss.fractions(r.stream, r.output({scopes, experts}, r.acc(), experts), given);
}

}  // namespace

std::vector<Case> router_loss_cases() {
  const auto e = [](auto member) { return entry(&KernelTable::router_loss, member); };
  return {
      {"router_count", e(&L::count), count},
      {"router_fractions", e(&L::fractions), fractions},
      {"router_balance", e(&L::balance),
       [](K k, Trial& r) {
         const Operands o(r);
         for (const Tensor& segment : segments(r))
           for (const Tensor& coefficients : {o.coefficients, Tensor{}})
             k.router_loss.balance(r.stream, {r.output({1}, r.acc(), o.tokens)}, o.scores, segment, o.fractions,
                                   coefficients, factors);
       }},
      {"router_balance_backward", e(&L::balance_backward),
       [](K k, Trial& r) {
         const Operands o(r);
         // The share of a single expert is always one, so the gradient is a rounding error.
         if (o.experts == 1) return r.expect_zeros();
         for (const Tensor& segment : segments(r))
           for (const Tensor& coefficients : {o.coefficients, Tensor{}})
             k.router_loss.balance_backward(r.stream, r.output({o.tokens, o.experts}, r.acc(), o.experts),
                                            r.normal({1}, r.acc()), o.scores, segment, o.fractions, coefficients,
                                            factors);
       }},
      {"router_z", e(&L::z),
       [](K k, Trial& r) {
         const auto [tokens, experts] = r.size;
         for (const Tensor& segment : segments(r))
           k.router_loss.z(r.stream, {r.output({1}, r.acc(), tokens)}, r.output({tokens}, r.acc(), experts),
                           r.normal({tokens, experts}, r.acc()), segment, factors);
       }},
      {"router_z_backward", e(&L::z_backward),
       [](K k, Trial& r) {
         const auto [tokens, experts] = r.size;
         const Tensor logits = r.normal({tokens, experts}, r.acc()), log_sum_exp = r.scratch({tokens}, r.acc());
         for (const Tensor& segment : segments(r)) {
           reference_table.router_loss.z(r.host_stream, {r.scratch({1}, r.acc())}, log_sum_exp, logits, segment,
                                         factors);
           k.router_loss.z_backward(r.stream, r.output({tokens, experts}, r.acc(), experts), r.normal({1}, r.acc()),
                                    logits, log_sum_exp, segment, factors);
           r.stream.synchronize();  // log_sum_exp will be overwritten
         }
       }},
  };
}

}  // namespace hexad::tests
