#include "tests/gpu/aligned_cases.h"

#include <algorithm>
#include <cmath>

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

using K = const KernelTable&;

constexpr int64_t tokens = 391, hidden = 320, features = 264;
constexpr int64_t experts = 7;
constexpr std::array layouts{Layout::contiguous, Layout::aligned_rows};
constexpr std::array both{Write::replace, Write::add};

// Returns offsets of experts with no row, one row and many rows. The first row and the last two rows belong to no
// expert.
const std::vector<int64_t>& offsets() {
  static const std::vector<int64_t> all{1, 1, 2, 140, 140, 268, 301, 389};
  return all;
}

// Returns the result tensor of a product in `type`. The tensor starts with standard normal values if `write` is
// Write::add. Otherwise, the tensor starts poisoned.
Tensor result(Trial& r, Shape shape, Dtype type, int64_t terms, Write write, Layout layout = Layout::contiguous) {
  const Tensor t = r.output(shape, type, terms, layout);
  if (write == Write::add) reference_table.pointwise.copy(r.host_stream, t, r.normal(shape, type));
  return t;
}

void dense(K k, Trial& r) {
  for (Layout layout : layouts)
    for (Write write : both) {
      for (Dtype out : {r.dtype, r.acc()})
        k.matmul.forward(r.stream, result(r, {tokens, features}, out, hidden, write, layout),
                         r.normal({tokens, hidden}, layout), r.normal({features, hidden}), write);
      k.matmul.input_gradient(r.stream, result(r, {tokens, hidden}, r.dtype, features, write, layout),
                              r.normal({tokens, features}, layout), r.normal({features, hidden}), write);
      for (Dtype dw : {r.dtype, r.acc()})
        k.matmul.weight_gradient(r.stream, result(r, {features, hidden}, dw, tokens, write),
                                 r.normal({tokens, features}, layout), r.normal({tokens, hidden}, layout), write);
    }
}

// Computes a router's matrix product, and then the gradients of this product. If `outputs` is 1, the product is that of
// a gate. x has the dtype of the trial, and the weight has the dtype acc().
void router_product(K k, Trial& r, int64_t outputs) {
  const Tensor w = r.normal({outputs, hidden}, r.acc()), x = r.normal({tokens, hidden});
  k.matmul.forward(r.stream, r.output({tokens, outputs}, r.acc(), hidden), x, w, Write::replace);
  const Tensor dy = r.normal({tokens, outputs}, r.acc());
  k.matmul.input_gradient(r.stream, r.output({tokens, hidden}, r.dtype, outputs), dy, w, Write::replace);
  k.matmul.weight_gradient(r.stream, r.output({outputs, hidden}, r.acc(), tokens), dy, x, Write::replace);
}

// Multiplies matrices large enough for products of bf16 parts. The longest sum has as many terms as a micro-batch has
// tokens.
void large_router_product(K k, Trial& r) {
  constexpr int64_t width = 2048, choices = 32, rows = 520, many_rows = 16384, narrow = 128;
  const Tensor w = r.normal({choices, width}, r.acc()), dy = r.normal({rows, choices}, r.acc());
  for (Layout layout : layouts)
    for (Write write : both) {
      const Tensor x = r.normal({rows, width}, layout);
      k.matmul.forward(r.stream, result(r, {rows, choices}, r.acc(), width, write), x, w, write);
      k.matmul.input_gradient(r.stream, result(r, {rows, width}, r.dtype, choices, write), dy, w, write);
      k.matmul.weight_gradient(r.stream, result(r, {choices, width}, r.acc(), rows, write), dy, x, write);
    }
  k.matmul.weight_gradient(r.stream, r.output({choices, narrow}, r.acc(), many_rows),
                           r.normal({many_rows, choices}, r.acc()), r.normal({many_rows, narrow}), Write::replace);
}

void grouped(K k, Trial& r) {
  const GroupOffsets host = GroupOffsets::on_host(offsets()),
                     device{.groups = experts, .max_rows = 138, .device = r.values(offsets(), {experts + 1})};
  for (const GroupOffsets& groups : {host, device})
    for (Write write : both) {
      k.grouped_matmul.forward(r.stream, result(r, {tokens, features}, r.dtype, hidden, write),
                               r.normal({tokens, hidden}), r.normal({experts, features, hidden}), groups, write);
      k.grouped_matmul.input_gradient(r.stream, result(r, {tokens, hidden}, r.dtype, features, write),
                                      r.normal({tokens, features}), r.normal({experts, features, hidden}), groups,
                                      write);
      for (Dtype dw : {r.dtype, r.acc()})
        k.grouped_matmul.weight_gradient(r.stream, result(r, {experts, features, hidden}, dw, tokens, write),
                                         r.normal({tokens, features}), r.normal({tokens, hidden}), groups, write);
    }
}

// Computes several tiles in one launch: groups of no row, one row, and 128 rows, and groups that end within a tile. The
// first row and the last two rows belong to no group, so their activation is undefined and not compared.
void grouped_swiglu(K k, Trial& r) {
  constexpr int64_t width = 384;
  const GroupOffsets host = GroupOffsets::on_host(offsets()),
                     device{.groups = experts, .max_rows = 138, .device = r.values(offsets(), {experts + 1})};
  const Tensor x = r.normal({tokens, hidden}), w = r.normal({experts, 2 * width, hidden});
  for (const GroupOffsets& groups : {host, device})
    for (const Tensor& weights : {Tensor{}, r.normal({tokens}, r.acc())}) {
      const Tensor activated = r.scratch({tokens, width}, r.dtype);
      k.grouped_swiglu.forward(r.stream, r.output({tokens, 2 * width}, hidden), activated, x, w, groups, weights);
      const Tensor compared = r.output({offsets().back() - offsets().front(), width}, hidden);
      reference_table.pointwise.copy(r.host_stream, compared, activated.slice(0, offsets().front(), offsets().back()));
    }
}

// Like grouped_swiglu(), for the gradients. The results of rows that belong to no group are unspecified.
void grouped_swiglu_gradients(K k, Trial& r) {
  constexpr int64_t width = 384;
  const GroupOffsets host = GroupOffsets::on_host(offsets()),
                     device{.groups = experts, .max_rows = 138, .device = r.values(offsets(), {experts + 1})};
  const int64_t begin = offsets().front(), end = offsets().back();
  const Tensor dout = r.normal({tokens, hidden}), w = r.normal({experts, hidden, width}),
               gate_up = r.normal({tokens, 2 * width});
  const auto compare = [&](const Tensor& t, Shape shape, int64_t terms) {
    reference_table.pointwise.copy(r.host_stream, r.output(shape, terms), t.slice(0, begin, end));
  };
  for (const GroupOffsets& groups : {host, device})
    for (const Tensor& weights : {Tensor{}, r.normal({tokens}, r.acc())}) {
      const Tensor dgate_up = r.scratch({tokens, 2 * width}, r.dtype), product = r.scratch({tokens, width}, r.dtype),
                   dweights = weights.defined() ? r.scratch({tokens}, r.acc()) : Tensor{};
      k.grouped_swiglu.backward(r.stream, {dgate_up, product, dweights}, dout, w, groups, gate_up, weights);
      compare(dgate_up, {end - begin, 2 * width}, hidden);
      if (!weights.defined()) continue;
      compare(product, {end - begin, width}, 1);
      compare(dweights, {end - begin}, hidden + width);
    }
}

struct Heads {
  int64_t queries, keys, size;
};

// Returns the yardstick for the errors of attention's gradients. The reasons for Yardstick::row in bf16:
// - Products of bf16 matrices need the probabilities P and their gradients dS in bf16. The addends of the gradients are
//   P * dO, dS * K and dS * Q. Therefore, each addend has a rounding error of 2^-9.2 of the addend, in the root mean
//   square.
// - If several heads share the result, the part of each head may be rounded again.
// - The rounding errors are as independent as the addends. The elements of a row share P and dS. Therefore, the root of
//   the sum of the addends' squares is the root mean square of the row.
// - Therefore, the standard deviation of an element is 2^-8.7 of the row's root mean square. The tolerance of 2^-6 is
//   6.5 standard deviations, for rows of any size.
// - With Yardstick::tensor, the tolerance would be less than one standard deviation for the first key of a causal
//   sequence.
Yardstick yardstick(Dtype dtype) { return dtype == Dtype::bf16 ? Yardstick::row : Yardstick::tensor; }

// The kernels receive the number of documents if the value is `counted`.
enum class Documents { none, uncounted, counted };

// Runs attention on two sequences of 200 positions. Each sequence has three documents if `documents` is not none.
void attention(K k, Trial& r, Heads h, bool causal, Documents documents, bool deterministic) {
  constexpr int64_t sequences = 2, positions = 200, rows = sequences * positions;
  constexpr std::array<int64_t, 4> borders{0, 1, 100, positions};
  const AttentionShape shape{.sequences = sequences,
                             .queries = positions,
                             .keys = positions,
                             .scale = 1 / std::sqrt(static_cast<double>(h.size)),
                             .causal = causal,
                             .deterministic = deterministic,
                             .documents = documents == Documents::counted ? sequences * 3 : 0};
  constexpr Layout beside = Layout::aligned_rows;
  const Shape query_shape{rows, h.queries, h.size}, key_shape{rows, h.keys, h.size};
  const Tensor q = r.normal(query_shape, beside), keys = r.normal(key_shape, beside), v = r.normal(key_shape, beside);
  Tensor first, last;
  if (documents != Documents::none) {
    std::vector<int32_t> begins, ends;
    for (int64_t i = 0; i < rows; ++i) {
      const auto end = std::ranges::upper_bound(borders, i % positions);
      begins.push_back(static_cast<int32_t>(end[-1]));
      ends.push_back(static_cast<int32_t>(*end));
    }
    first = r.values<int32_t>(begins, {sequences, positions});
    last = r.values<int32_t>(ends, {sequences, positions});
  }
  k.attention.forward(r.stream, r.output(query_shape, positions), r.output({rows, h.queries}, r.acc(), h.size), q, keys,
                      v, first, last, shape);

  const Tensor out = r.scratch(query_shape, r.dtype), log_sum_exp = r.scratch({rows, h.queries}, r.acc());
  reference_table.attention.forward(r.host_stream, out, log_sum_exp, q, keys, v, first, last, shape);
  const int64_t terms = positions * h.queries / h.keys + h.size;
  const auto gradient = [&](const Shape& of) { return r.output(of, r.dtype, terms, beside, yardstick(r.dtype)); };
  const AttentionGradients gradients{gradient(query_shape), gradient(key_shape), gradient(key_shape)};
  k.attention.backward(r.stream, gradients, r.normal(query_shape), {out, log_sum_exp, q, keys, v, first, last}, shape);
}

void rotary(K k, Trial& r, int64_t pairs) {
  constexpr int64_t size = 128, context = 64;
  const Shape q{tokens, 5, size}, keys{tokens, 2, size};
  const Tensor cosine = r.normal({context, pairs}, r.acc()), sine = r.normal({context, pairs}, r.acc());
  const Tensor positions = r.integers({tokens}, Dtype::i32, context);
  for (Direction direction : {Direction::forward, Direction::backward})
    k.rotary.apply(r.stream, {r.output(q), r.output(keys)},
                   {r.normal(q, Layout::aligned_rows), r.normal(keys, Layout::aligned_rows)}, positions, cosine, sine,
                   direction);
}

void swiglu(K k, Trial& r) {
  constexpr Layout beside = Layout::aligned_rows;
  const Shape shape{tokens, features};
  const Tensor gate = r.normal(shape, beside), up = r.normal(shape, beside), weights = r.normal({tokens}, r.acc());
  for (const Tensor& w : {Tensor(), weights}) {
    k.swiglu.forward(r.stream, r.output(shape), gate, up, w);
    const SwigluGradients gradients{r.output(shape, r.dtype, 2, beside), r.output(shape, r.dtype, 2, beside),
                                    r.output(shape), w.defined() ? r.output({tokens}, r.acc(), features) : Tensor()};
    k.swiglu.backward(r.stream, gradients, r.normal(shape), {gate, up, w});
  }
}

}  // namespace

std::vector<Case> aligned_cases() {
  std::vector<Case> cases{
      {"dense", entry(&KernelTable::matmul, &MatmulKernels::forward), dense},
      {"router_product", entry(&KernelTable::matmul, &MatmulKernels::forward),
       [](K k, Trial& r) { router_product(k, r, experts); }},
      {"gate_product", entry(&KernelTable::matmul, &MatmulKernels::forward),
       [](K k, Trial& r) { router_product(k, r, 1); }},
      {"large_router_product", entry(&KernelTable::matmul, &MatmulKernels::forward), large_router_product},
      {"grouped", entry(&KernelTable::grouped_matmul, &GroupedMatmulKernels::forward), grouped},
      {"grouped_swiglu", entry(&KernelTable::grouped_swiglu, &GroupedSwigluKernels::forward), grouped_swiglu},
      {"grouped_swiglu_gradients", entry(&KernelTable::grouped_swiglu, &GroupedSwigluKernels::backward),
       grouped_swiglu_gradients},
      {"rotary", entry(&KernelTable::rotary, &RotaryKernels::apply), [](K k, Trial& r) { rotary(k, r, 64); }},
      {"rotary_of_a_part", entry(&KernelTable::rotary, &RotaryKernels::apply), [](K k, Trial& r) { rotary(k, r, 16); }},
      {"swiglu", entry(&KernelTable::swiglu, &SwigluKernels::forward), swiglu},
  };
  for (const Heads h : {Heads{4, 2, 64}, Heads{4, 1, 128}})
    for (bool causal : {false, true})
      for (Documents documents : {Documents::none, Documents::uncounted, Documents::counted})
        for (bool deterministic : {false, true})
          cases.push_back({cat("attention_", h.size, causal ? "_causal" : "_bidirectional",
                               documents == Documents::none        ? ""
                               : documents == Documents::uncounted ? "_documents"
                                                                   : "_counted_documents",
                               deterministic ? "_deterministic" : ""),
                           entry(&KernelTable::attention, &AttentionKernels::forward),
                           [=](K k, Trial& r) { attention(k, r, h, causal, documents, deterministic); }});
  return cases;
}

const std::vector<Size>& aligned_sizes() {
  static const std::vector<Size> all{{33, 256}, {260, 1024}, {131, 2056}};
  return all;
}

}  // namespace hexad::tests
