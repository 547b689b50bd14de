#include <algorithm>
#include <cmath>

#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
using S = SlotKernels;

// Returns ids of experts. The first `dropped` of every seven consecutive ids are -1.
Tensor ids_for(Trial& r, int64_t slots, int64_t experts, int64_t dropped) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < slots * r.size.rows; ++i)
    ids.push_back(i % 7 < dropped ? -1 : static_cast<int32_t>((i * 31 + i / 5) % experts));
  return r.values<int32_t>(ids, {r.size.rows, slots});
}

void sort(K k, Trial& r) {
  const int64_t tokens = r.size.rows;
  for (int64_t slots : {1, 2, 8})
    for (int64_t experts : {1, 5, 300})
      for (int64_t dropped : {0, 3, 7})
        k.slots.sort(r.stream, r.output({tokens * slots}, Dtype::i64), r.output({tokens, slots}, Dtype::i64),
                     r.output({experts + 1}, Dtype::i64), ids_for(r, slots, experts, dropped));
  // Limits on a card: 512 experts per scan, 1024 experts for which eight warps have counters, and 8192 counters of a
  // block.
  for (int64_t experts : {600, 3000, 8192, 8193, 40000})
    k.slots.sort(r.stream, r.output({tokens * 2}, Dtype::i64), r.output({tokens, 2}, Dtype::i64),
                 r.output({experts + 1}, Dtype::i64), ids_for(r, 2, experts, 1));
}

// Returns whole numbers from -3 to 97, of `type`.
Tensor numbers_for(Trial& r, Dtype type) {
  const Tensor x = r.scratch({r.size.rows, r.size.width}, type);
  reference::Array a = reference::zeros(x);
  for (int64_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i * 37 % 101 - 3);
  reference::store(x, a);
  return x;
}
Tensor numbers_in_place(Trial& r, Dtype type) {
  const Tensor x = r.output({r.size.rows, r.size.width}, type);
  reference_table.pointwise.copy(r.host_stream, x, numbers_for(r, type));
  return x;
}

void shift(K k, Trial& r) {
  for (Dtype type : {Dtype::i32, Dtype::i64})
    for (int64_t by : {-40, 0, 7}) {
      const Tensor x = numbers_for(r, type), in_place = numbers_in_place(r, type);
      k.index.shift(r.stream, r.output(x.shape(), type), x, by);
      k.index.shift(r.stream, in_place, in_place, by);
    }
}

void within(K k, Trial& r) {
  for (int64_t count : {0, 1, 50}) {
    const Tensor x = numbers_for(r, Dtype::i32), in_place = numbers_in_place(r, Dtype::i32);
    for (Dtype type : {Dtype::i32, Dtype::i64}) k.index.within(r.stream, r.output(x.shape(), type), x, 11, count);
    k.index.within(r.stream, in_place, in_place, 11, count);
  }
}

void keys(K k, Trial& r) {
  const int64_t experts = 6;
  for (int64_t chunks : {1, 3}) {
    std::vector<int32_t> chunk_of;
    for (int64_t e = 0; e < experts; ++e) chunk_of.push_back(static_cast<int32_t>(e * 5 % chunks));
    // Id -1 is a dropped slot. Ids -2, 6 and 7 are not ids of experts.
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < 2 * r.size.rows; ++i) ids.push_back(static_cast<int32_t>(i * 7 % 10) - 2);
    for (const Tensor& of : {Tensor{}, r.values<int32_t>(chunk_of, {experts})}) {
      const Shape shape{r.size.rows, 2};
      const Tensor given = r.values<int32_t>(ids, shape), in_place = r.output(shape, Dtype::i32);
      reference_table.pointwise.copy(r.host_stream, in_place, given);
      k.slots.keys(r.stream, r.output(shape, Dtype::i32), given, of, experts, chunks);
      k.slots.keys(r.stream, in_place, in_place, of, experts, chunks);
    }
  }
}

// Returns n - 1, n - 2, ..., 0. Every fifth number is replaced by -1 if `some_missing` is true.
Tensor places_for(Trial& r, int64_t n, bool some_missing) {
  std::vector<int64_t> at;
  for (int64_t i = 0; i < n; ++i) at.push_back(some_missing && i % 5 == 2 ? -1 : n - 1 - i);
  return r.values<int64_t>(at, {n});
}

void shift_parts(K k, Trial& r) {
  const int64_t n = r.size.rows;
  // The first table has several parts, and at least one part is empty. The second table has a single part.
  const std::vector<std::vector<int64_t>> ways{{n / 3, n / 3, n / 2, n, 10, 20, -30, 40}, {n, 5}};
  for (const auto& parts : ways) {
    const Tensor x = places_for(r, n, true), in_place = r.output({n}, Dtype::i64);
    reference_table.pointwise.copy(r.host_stream, in_place, x);
    const Tensor table = r.values<int64_t>(parts, {2, static_cast<int64_t>(parts.size()) / 2});
    k.index.shift_parts(r.stream, r.output({n}, Dtype::i64), x, table);
    k.index.shift_parts(r.stream, in_place, in_place, table);
  }
}

void iota_parts(K k, Trial& r) {
  const int64_t n = r.size.rows * std::min<int64_t>(r.size.width, 65);
  // The first table has empty parts at the start, in the middle and at the end. The second table has a single part. The
  // third table has more parts than small sizes have elements.
  std::vector<std::vector<int64_t>> ways{{0, n / 3, n / 3, n / 2, n, n, 9, 10, 20, -30, 40, 50}, {n, 5}, {}};
  constexpr int64_t many = 300;
  for (int64_t p = 0; p < many; ++p) ways.back().push_back(n * (p + 1) / many);
  for (int64_t p = 0; p < many; ++p) ways.back().push_back(1000 - 7 * p);
  for (const auto& parts : ways)
    k.index.iota_parts(r.stream, r.output({n}, Dtype::i64),
                       r.values<int64_t>(parts, {2, static_cast<int64_t>(parts.size()) / 2}));
}

void take(K k, Trial& r) {
  const int64_t n = r.size.rows;
  const Tensor x = numbers_for(r, Dtype::i64).reshape({n * r.size.width}), index = places_for(r, n, false);
  const Tensor in_place = r.output({n}, Dtype::i64);
  reference_table.pointwise.copy(r.host_stream, in_place, index);
  k.index.take(r.stream, r.output({n}, Dtype::i64), x, index);
  k.index.take(r.stream, in_place, x, in_place);
}

void inverse(K k, Trial& r) {
  const int64_t n = r.size.rows;
  for (bool some_missing : {false, true}) {
    // Index n of the output does not occur in the input.
    const Tensor out = r.output({n + 1}, Dtype::i64);
    reference_table.pointwise.copy(r.host_stream, out, places_for(r, n + 1, true));
    k.index.inverse(r.stream, out, places_for(r, n, some_missing));
  }
}

// Returns scores with many ties, NaNs and -infinities.
Tensor tied_scores(Trial& r, int64_t tokens, int64_t experts) {
  const Tensor scores = r.scratch({tokens, experts}, r.acc());
  reference::Array a = reference::zeros(scores);
  for (int64_t i = 0; i < a.size(); ++i)
    a[i] = i % 13 == 4 ? std::nan("") : i % 17 == 2 ? -INFINITY : static_cast<double>(i * 7 % 9) / 8 - 0.25;
  reference::store(scores, a);
  return scores;
}

// Drops slots by scores with ties and by position, for rows in order and in reverse order.
void drop_of(K k, Trial& r, int64_t tokens, int64_t scope_tokens) {
  const int64_t experts = 5, top_k = 2;
  std::vector<int32_t> ids;
  std::vector<int64_t> backwards;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto first = static_cast<int32_t>(t * t % experts);
    ids.push_back(t % 7 == 3 ? -1 : first), ids.push_back(t % 11 == 5 ? 9 : (first + 2) % experts);
    backwards.push_back(tokens - 1 - t);
  }
  const Tensor scores = tied_scores(r, tokens, experts);
  for (DropRule rule : {DropRule::probability, DropRule::position})
    for (double factor : {0.0, 0.6, 1e18})
      for (const Tensor& rows : {Tensor{}, r.values<int64_t>(backwards, {tokens})}) {
        const Tensor out = r.output({tokens, top_k}, Dtype::i32);
        reference_table.pointwise.copy(r.host_stream, out, r.values<int32_t>(ids, {tokens, top_k}));
        k.capacity.drop(r.stream, out, scores, rows, {scope_tokens, factor, rule});
      }
}

void drop(K k, Trial& r) {
  drop_of(k, r, r.size.rows, r.size.rows / 2 + 1);
  // There are more tokens than a block of a card has threads, and the last scope has one token.
  if (r.size.rows == 1) drop_of(k, r, 1501, 1500);
}

// Makes experts choose tokens by scores with ties, for rows in order, and for rows in reverse order with padding.
void choose_of(K k, Trial& r, int64_t tokens, int64_t scope_tokens, const std::vector<int64_t>& slots_of_token) {
  const int64_t experts = 5;
  std::vector<int64_t> backwards;
  for (int64_t t = 0; t < tokens; ++t) backwards.push_back(t % 7 == 3 ? -1 : tokens - 1 - t);
  const Tensor scores = tied_scores(r, tokens, experts);
  const Tensor reversed = r.values<int64_t>(backwards, {tokens});
  const auto choose_with = [&](int64_t slots, const Tensor& rows, double factor) {
    k.expert_choice.choose(r.stream, r.output({tokens, slots}, Dtype::i32), scores, rows, scope_tokens, factor);
  };
  for (const int64_t slots : slots_of_token) choose_with(slots, {}, 0.6), choose_with(slots, reversed, 0.6);
  for (const double factor : {0.0, 1e18}) choose_with(slots_of_token.back(), reversed, factor);
}

void choose(K k, Trial& r) {
  choose_of(k, r, r.size.rows, r.size.rows / 2 + 1, {1, 2, 5});
  // There are more tokens than a block of a card has threads, and the last scope has one token.
  if (r.size.rows == 1) choose_of(k, r, 1501, 1500, {2});
}

constexpr int64_t choosing_experts = 6;

// Returns ids of `slots` experts for each token. Some ids are -1.
Tensor chosen_for(Trial& r, int64_t slots) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < slots * r.size.rows; ++i)
    ids.push_back(i % 7 == 3 ? -1 : static_cast<int32_t>((i / slots * 4 + i % slots) % choosing_experts));
  return r.values<int32_t>(ids, {r.size.rows, slots});
}

}  // namespace

std::vector<Case> slot_cases() {
  return {
      {"slots_mask", entry(&KernelTable::slots, &S::mask),
       [](K k, Trial& r) {
         for (int64_t slots : {1, 2, 8}) {
           const Tensor ids = r.output({r.size.rows, slots}, Dtype::i32);
           reference_table.pointwise.copy(r.host_stream, ids, ids_for(r, slots, 64, 1));
           k.slots.mask(r.stream, ids, r.integers({r.size.rows}, Dtype::u8, 3));
         }
       }},
      {"slots_sort", entry(&KernelTable::slots, &S::sort), sort},
      {"expert_choice_choose", entry(&KernelTable::expert_choice, &ExpertChoiceKernels::choose), choose},
      {"expert_choice_forward", entry(&KernelTable::expert_choice, &ExpertChoiceKernels::forward),
       [](K k, Trial& r) {
         for (int64_t slots : {1, 3})
           k.expert_choice.forward(r.stream, r.output({r.size.rows, slots}, r.acc()),
                                   r.normal({r.size.rows, choosing_experts}, r.acc()), chosen_for(r, slots));
       }},
      {"expert_choice_backward", entry(&KernelTable::expert_choice, &ExpertChoiceKernels::backward),
       [](K k, Trial& r) {
         for (int64_t slots : {1, 3})
           k.expert_choice.backward(r.stream, r.output({r.size.rows, choosing_experts}, r.acc()),
                                    r.normal({r.size.rows, slots}, r.acc()), chosen_for(r, slots));
         r.expect_zeros();  // only chosen experts have a gradient
       }},
      {"capacity_drop", entry(&KernelTable::capacity, &CapacityKernels::drop), drop},
      {"slots_keys", entry(&KernelTable::slots, &S::keys), keys},
      {"slots_iota", entry(&KernelTable::slots, &S::iota),
       [](K k, Trial& r) {
         for (int64_t first : {int64_t{0}, int64_t{-3}, int64_t{1} << 40})
           k.slots.iota(r.stream, r.output({r.size.rows * r.size.width}, Dtype::i64), first);
       }},
      {"index_shift", entry(&KernelTable::index, &IndexKernels::shift), shift},
      {"index_within", entry(&KernelTable::index, &IndexKernels::within), within},
      {"index_shift_parts", entry(&KernelTable::index, &IndexKernels::shift_parts), shift_parts},
      {"index_iota_parts", entry(&KernelTable::index, &IndexKernels::iota_parts), iota_parts},
      {"index_take", entry(&KernelTable::index, &IndexKernels::take), take},
      {"index_inverse", entry(&KernelTable::index, &IndexKernels::inverse), inverse},
  };
}

}  // namespace hexad::tests
