// Attention over ranks that share sequences equals attention over whole sequences.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "framework/base/enum_names.h"
#include "framework/base/philox.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/cp/attention_blocks.h"
#include "tests/cp/context_check.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using comm::TrafficClass;

class ContextAttentionOf : public testing::TestWithParam<Case> {};

TEST_P(ContextAttentionOf, EqualsFullAttentionInOutputsAndGradients) {
  const Case& c = GetParam();
  Lab one;
  const Given whole = random_micro_batch(one, c);
  const Results expected = full_attention(one, c, whole);
  comm::with_ranks(c.ranks, [&](const ProcessGroup& world) {
    Lab lab;
    expect_rows(lab, c, expected, context_results(lab, lab.stream(), c, whole, world), world);
  });
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (int ranks : {1, 2, 3, 4})
    for (Case& c : context_cases(ranks)) all.push_back(std::move(c));
  return all;
}

INSTANTIATE_TEST_SUITE_P(L3, ContextAttentionOf, testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name; });

// Returns the root mean square of a - b.
double distance(const Tensor& a, const Tensor& b) {
  const auto x = values_of(a), y = values_of(b);
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(squares / static_cast<double>(x.size()));
}

TEST(ContextAttention, RoundsBf16AtMostTwiceAsMuchAsFullAttention) {  // full attention rounds no partial results
  for (ContextKind kind : context_kinds)
    for (int ranks : {2, 4}) {
      const Case c{"bf16", kind, ranks, 2, 10 * ranks, 12, 1, 8, true, {}, 0, Dtype::bf16};
      Lab one;
      const Given whole = random_micro_batch(one, c);
      const auto widened = [&](const Tensor& t) { return one.values(values_of(t), t.shape()); };
      const Results rounded = full_attention(one, c, whole);
      const Results exact =
          full_attention(one, c, {widened(whole.q), widened(whole.k), widened(whole.v), widened(whole.dout)});
      comm::with_ranks(ranks, [&](const ProcessGroup& world) {
        Lab lab;
        const Results mine = context_results(lab, lab.stream(), c, whole, world);
        const auto tokens = context_of(lab, c, world).split.tokens();
        for (Tensor Results::*t : {&Results::out, &Results::dq, &Results::dk, &Results::dv}) {
          const Tensor here = rows_of(lab, exact.*t, tokens);
          EXPECT_LE(distance(mine.*t, here), 2 * distance(rows_of(lab, rounded.*t, tokens), here))
              << base::enum_name(kind);
          EXPECT_EQ((mine.*t).dtype(), Dtype::bf16);
        }
      });
    }
}

Case small(ContextKind kind, int ranks) { return {"small", kind, ranks, 2, 4 * ranks, 4, 2, 4, true, {3, 6}}; }

struct ResultsWithSinks {
  Results results;
  Tensor dsinks;
};

// Runs forward and backward of `attend`, which receives the sinks of four heads.
ResultsWithSinks with_sinks(Lab& lab, const Given& in,
                            const std::function<Value(Tape&, Value, Value, Value, const AttentionSinks&)>& attend) {
  Parameter& logits = lab.parameter({4});
  kernels::kernels(logits.local().device())
      .pointwise.copy(lab.stream(), logits.local(), lab.values<double>({-0.5, 0.3, 1.2, 2}, {4}));
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Results results =
      results_of(tape, in, [&](Value q, Value k, Value v) { return attend(tape, q, k, v, AttentionSinks(logits)); });
  return {results, logits.gradient()};
}

TEST(ContextAttention, CountsEverySinkOnceInOutputsAndGradients) {
  for (ContextKind kind : context_kinds)
    for (int ranks : {2, 4}) {
      Case c{"sinks", kind, ranks, 2, 4 * ranks, 4, 2, 4, true};
      c.window = 5;
      Lab one;
      const Given whole = random_micro_batch(one, c);
      const ResultsWithSinks all =
          with_sinks(one, whole, [&](Tape& tape, Value q, Value k, Value v, const AttentionSinks& sinks) {
            const kernels::AttentionShape shape{.sequences = c.sequences,
                                                .queries = c.length,
                                                .keys = c.length,
                                                .scale = c.scale(),
                                                .window = c.window};
            return attention(tape, q, k, v, {}, {}, shape, sinks);
          });
      comm::with_ranks(ranks, [&](const ProcessGroup& world) {
        Lab lab;
        ContextAttention a = context_of(lab, c, world);
        const ResultsWithSinks mine =
            with_sinks(lab, rows_of(lab, whole, a.split.tokens()),
                       [&](Tape& tape, Value q, Value k, Value v, const AttentionSinks& sinks) {
                         a.sinks = sinks;
                         return context_attention(tape, q, k, v, a);
                       });
        expect_rows(lab, c, all.results, mine.results, world);
        lab.stream().wait(world.all_reduce(mine.dsinks, comm::Reduce::sum, lab.stream()));
        expect_close(all.dsinks, mine.dsinks, tolerance(Dtype::f64, c.length * c.sequences));
      });
    }
}

// Elements beyond the size of values are normally zero, in values and in their gradients. The CPU kernels do not read
// these elements. Here, these elements are not zero. Therefore, the results show whether each kind of context attention
// passes the size of values to the kernels.
TEST(ContextAttention, PassesTheSizeOfValuesToTheKernels) {
  constexpr int64_t value_size = 3;
  for (ContextKind kind : context_kinds)
    for (int ranks : {1, 2}) {
      const Case c = small(kind, ranks);
      Lab one;
      const Given whole = random_micro_batch(one, c);
      comm::with_ranks(ranks, [&](const ProcessGroup& world) {
        Lab lab;
        if (lab.context.kind() == device::DeviceKind::cuda) return;
        ContextAttention a = context_of(lab, c, world);
        a.value_size = value_size;
        const auto policy = keep_policy();
        Tape tape(lab.stream(), *policy);
        const Results mine = results_of(tape, rows_of(lab, whole, a.split.tokens()),
                                        [&](Value q, Value k, Value v) { return context_attention(tape, q, k, v, a); });
        for (const Tensor& t : {mine.out, mine.dv}) {
          const std::vector<double> values = values_of(t);
          for (size_t i = 0; i < values.size(); ++i)
            EXPECT_EQ(values[i] == 0, static_cast<int64_t>(i) % t.dim(2) >= value_size) << base::enum_name(kind);
        }
      });
    }
}

TEST(ContextAttention, EqualsAttentionBitwiseOnOneRank) {
  for (ContextKind kind : context_kinds) {
    const Case c = small(kind, 1);
    Lab lab;
    const Given whole = random_micro_batch(lab, c);
    const Results expected = full_attention(lab, c, whole);
    const Results mine = context_results(lab, lab.stream(), c, whole, comm::SelfGroup{});
    expect_bitwise(expected.out, mine.out);
    expect_bitwise(expected.dq, mine.dq);
    expect_bitwise(expected.dk, mine.dk);
    expect_bitwise(expected.dv, mine.dv);
  }
}

// Sleeps for a random time below 0.4 ms before every piece of work. The times differ between ranks.
class DelayingStream final : public Stream {
 public:
  explicit DelayingStream(int rank) : random_(1, Purpose::synthetic, cat("rank ", rank)) {}
  void run(std::function<void()> work) override {
    std::this_thread::sleep_for(std::chrono::microseconds(random_.below(drawn_++, 400)));
    work();
  }
  void wait(const device::Event& event) override { event.wait(); }
  device::Event record() override { return {}; }

 private:
  Philox random_;
  uint64_t drawn_ = 0;
};

TEST(ContextAttention, DelayedRanksNeitherDeadlockNorChangeABit) {
  for (ContextKind kind : context_kinds)
    for (int ranks : {2, 4}) {
      const Case c = small(kind, ranks);
      Lab one;
      const Given whole = random_micro_batch(one, c);
      comm::with_ranks(ranks, [&](const ProcessGroup& world) {
        Lab lab;
        DelayingStream delays(world.rank());
        Stream& late_stream =
            lab.context.on_host() ? static_cast<Stream&>(delays) : lab.stream();  // DelayingStream runs host work only
        const Results prompt = context_results(lab, lab.stream(), c, whole, world);
        for (int layer = 0; layer < 3; ++layer) {  // consecutive layers, without a barrier between them
          const Results late = context_results(lab, late_stream, c, whole, world);
          expect_bitwise(prompt.out, late.out);
          expect_bitwise(prompt.dq, late.dq);
          expect_bitwise(prompt.dk, late.dk);
          expect_bitwise(prompt.dv, late.dv);
        }
      });
    }
}

TEST(ContextAttention, FailingRankEndsItsPeers) {
  for (ContextKind kind : context_kinds) {
    const Case c = small(kind, 2);
    Lab one;
    const Given whole = random_micro_batch(one, c);
    try {
      comm::with_ranks(2, [&](const ProcessGroup& world) {
        Lab lab;
        if (world.rank() == 1) fail(ExitCode::numeric, "loss is NaN");
        context_results(lab, lab.stream(), c, whole, world);
      });
      ADD_FAILURE() << "no error was thrown for " << base::enum_name(kind) << "; expected the error of rank 1";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "loss is NaN");
    }
  }
}

TEST(ContextAttention, ReadsStridedHeads) {  // q, k and v are parts of one product
  for (ContextKind kind : context_kinds) {
    const Case c{"strided", kind, 2, 1, 12, 4, 4, 4, true};
    Lab one;
    const Given whole = random_micro_batch(one, c);
    comm::with_ranks(2, [&](const ProcessGroup& world) {
      Lab lab;
      const ContextAttention a = context_of(lab, c, world);
      const Given mine = rows_of(lab, whole, a.split.tokens());
      const Tensor qkv = Tensor::empty({a.split.rows(), 12, 4}, Dtype::f64, lab.context);
      const auto part = [&](int i, const Tensor& from) {
        const Tensor to = qkv.slice(1, 4 * i, 4 * i + 4);
        kernels::kernels(lab.context).pointwise.copy(lab.stream(), to, from);
        return to;
      };
      const auto policy = keep_policy();
      Tape tape(lab.stream(), *policy);
      const Results strided =
          results_of(tape, {part(0, mine.q), part(1, mine.k), part(2, mine.v), mine.dout},
                     [&](Value q, Value k, Value v) { return context_attention(tape, q, k, v, a); });
      const Results packed = context_results(lab, lab.stream(), c, whole, world);
      expect_bitwise(packed.out, strided.out);
      expect_bitwise(packed.dq, strided.dq);
      expect_bitwise(packed.dk, strided.dk);
      expect_bitwise(packed.dv, strided.dv);
    });
  }
}

// Bytes that a rank sends to other ranks in one call of context_attention().
struct ContextTraffic {
  int64_t forward, backward;
};
// Returns the traffic for heads of `size` elements of `dtype`. `documents` is true if `first` and `last` are defined.
ContextTraffic context_traffic(ContextKind kind, const ContextSplit& split, int64_t heads, int64_t key_heads,
                               int64_t size, Dtype dtype, bool documents) {
  const int64_t others = split.ranks - 1, row = size * size_of(dtype),
                sum_row = size * size_of(accumulator_dtype(dtype));
  const int64_t rows = split.rows(), keys = 2 * rows * key_heads;  // keys: number of key and value vectors in all heads
  switch (kind) {
    case ContextKind::ring:  // gradients of keys and values need one more step, which returns them to their owner
      return {others * keys * row, others * keys * row + (others ? split.ranks * keys * sum_row : 0)};
    case ContextKind::all_gather:
      return {others * keys * row, others * keys * (row + sum_row)};
    case ContextKind::ulysses: {
      const int64_t keys_to_one = 2 * rows * (key_heads < split.ranks ? 1 : key_heads / split.ranks);
      const int64_t bytes = others * (2 * rows * heads / split.ranks + keys_to_one) * row;
      return {bytes + (documents ? others * 2 * rows * size_of(Dtype::i32) : 0), bytes};
    }
  }
  fail_invariant(cat("[cp] the kind is ", static_cast<int>(kind), "; expected a ContextKind"));
}

TEST(ContextAttention, SendsTheBytesOfTheFormula) {
  for (ContextKind kind : context_kinds)
    for (int64_t groups : {4, 2})
      for (Dtype dtype : {Dtype::f64, Dtype::bf16})
        for (bool documents : {false, true}) {
          Case c{"bytes", kind, 4, 2, 8, 4, groups, 4, true, {}, 0, dtype};
          if (documents) c.documents = {3, 6};
          Lab one;
          const Given whole = random_micro_batch(one, c);
          comm::with_ranks(4, [&](const ProcessGroup& world) {
            const auto group = world.split(0, world.rank(), TrafficClass::cp, "cp");
            Lab lab;
            const ContextAttention a = context_of(lab, c, *group);
            const Given mine = rows_of(lab, whole, a.split.tokens());
            const auto policy = keep_policy();
            Tape tape(lab.stream(), *policy);
            int64_t forward = 0;
            results_of(tape, mine, [&](Value q, Value k, Value v) {
              const Value out = context_attention(tape, q, k, v, a);
              forward = group->take(TrafficClass::cp).bytes;
              return out;
            });
            const ContextTraffic said = context_traffic(kind, a.split, 4, groups, 4, dtype, documents);
            EXPECT_EQ(forward, said.forward) << base::enum_name(kind);
            EXPECT_EQ(group->take(TrafficClass::cp).bytes, said.backward) << base::enum_name(kind);
          });
        }
}

TEST(RingAttention, HoldsUpToTwoBlocksInForwardAndFiveInBackward) {
  for (int ranks : {2, 4}) {
    const Case c{"memory", ContextKind::ring, ranks, 1, 64, 2, 2, 8, true};
    Lab one;
    const Given whole = random_micro_batch(one, c);
    comm::with_ranks(ranks, [&](const ProcessGroup& world) {
      Lab lab;
      const ContextAttention a = context_of(lab, c, world);
      const Given mine = rows_of(lab, whole, a.split.tokens());
      const auto& allocator = lab.context.allocator();
      const int64_t block = 2 * mine.k.bytes();  // bytes of keys and values
      const auto policy = keep_policy();
      Tape tape(lab.stream(), *policy);
      results_of(tape, mine, [&](Value q, Value k, Value v) {
        allocator->reset_peaks();
        const Value out = context_attention(tape, q, k, v, a);
        EXPECT_EQ(allocator->stats().peak_in(Category::communication), 2 * block);
        world.barrier(lab.stream()).wait();  // until then, a peer's thread may hold this rank's last message
        allocator->reset_peaks();
        return out;
      });
      EXPECT_EQ(allocator->stats().peak_in(Category::communication), 5 * block);
    });
  }
}

// Returns the number of query-key products in all blocks that a rank computes.
int64_t work_of(const ContextSplit& split, bool causal) {
  const int64_t n = split.piece_length();
  int64_t products = 0;
  for (int owner = 0; owner < split.ranks; ++owner)
    for (const cp::BlockPair& pair : cp::visible_pairs(split, owner, causal))
      products += pair.diagonal ? n * (n + 1) / 2 : n * n;
  return products;
}

TEST(RingAttention, GivesEveryRankTheSameWorkAndComputesNothingTwice) {
  for (int ranks : {1, 2, 3, 4, 8}) {
    const int64_t length = 2 * ranks * 5;
    for (int rank = 0; rank < ranks; ++rank) {
      const ContextSplit split{.length = length, .ranks = ranks, .rank = rank};
      EXPECT_EQ(work_of(split, true) * ranks, length * (length + 1) / 2) << "rank " << rank << " of " << ranks;
      EXPECT_EQ(work_of(split, false) * ranks, length * length) << "rank " << rank << " of " << ranks;
    }
  }
}

TEST(RingAttention, DividesWorkEvenlyInEveryStep) {  // a rank with more work in a step would delay all ranks
  for (int ranks : {2, 3, 4})
    for (int rank = 0; rank < ranks; ++rank)
      for (int owner = 0; owner < ranks; ++owner) {
        const ContextSplit split{.length = 4 * ranks, .ranks = ranks, .rank = rank};
        EXPECT_EQ(cp::visible_pairs(split, owner, true).size(), owner == rank ? 3u : 2u);
        EXPECT_EQ(cp::visible_pairs(split, owner, false).size(), 4u);
      }
}

TEST(RingAttention, SkipsBlocksThatTheWindowHides) {
  // Pieces have 4 tokens. Rank 0 has the pieces 0 and 3, and rank 1 has the pieces 1 and 2.
  const ContextSplit split{.length = 16, .ranks = 2, .rank = 1};
  EXPECT_EQ(cp::visible_pairs(split, 0, true).size(), 2u);
  EXPECT_EQ(cp::visible_pairs(split, 0, true, 6).size(), 2u);
  EXPECT_EQ(cp::visible_pairs(split, 0, true, 5).size(), 1u) << "the first query of piece 2 is 5 tokens after piece 0";
  EXPECT_EQ(cp::visible_pairs(split, 0, true, 1).size(), 0u);
  EXPECT_EQ(cp::visible_pairs(split, 1, true, 1).size(), 2u) << "every piece attends to itself";
}

TEST(ContextAttentionErrors, NameMismatchedArguments) {
  const auto message = [](const std::function<void(ContextAttention&)>& change, Shape q, Shape k) -> std::string {
    std::string text = "no error";
    comm::with_ranks(2, [&](const ProcessGroup& world) {
      Lab lab;
      const auto policy = keep_policy();
      Tape tape(lab.stream(), *policy);
      ContextAttention c{.split = {.sequences = 1, .length = 8, .ranks = 2, .rank = world.rank()},
                         .kind = ContextKind::ulysses,
                         .group = &world};
      change(c);
      try {
        context_attention(tape, {lab.randn(q)}, {lab.randn(k)}, {lab.randn(k)}, c);
      } catch (const std::logic_error& e) {
        if (world.rank() == 1) text = e.what();
      }
    });
    return text;
  };
  const auto nothing = [](ContextAttention&) {};
  EXPECT_EQ(message(nothing, {4, 2, 4}, {4, 1, 4}), "no error");
  EXPECT_EQ(message([](auto& c) { c.group = nullptr; }, {4, 2, 4}, {4, 1, 4}),
            "[cp] the split is for rank 1 of 2, but there is no group; expected a group of the same ranks");
  EXPECT_EQ(message([](auto& c) { c.split.rank = 0, c.split.ranks = 1; }, {4, 2, 4}, {4, 1, 4}),
            "[cp] the split is for rank 0 of 1, but the group has rank 1 of 2; expected a group of the same ranks");
  EXPECT_EQ(message(nothing, {4, 2, 4}, {4, 1, 3}),
            "[cp] q is [4, 2, 4], k [4, 1, 3], v [4, 1, 3]; expected q [R, H, C], k and v [R, G, C], H a multiple of "
            "G, and G > "
            "0");
  EXPECT_EQ(message(nothing, {4, 2, 4}, {4, 0, 4}),
            "[cp] q is [4, 2, 4], k [4, 0, 4], v [4, 0, 4]; expected q [R, H, C], k and v [R, G, C], H a multiple of "
            "G, and G > 0");
  EXPECT_EQ(message(nothing, {8, 2, 4}, {8, 2, 4}),
            "[cp] 1 x 8 tokens on 2 ranks have 4 rows per rank, but q is [8, 2, 4], k [8, 2, 4]; expected "
            "this number of rows in both");
  EXPECT_EQ(message([](auto& c) { c.split.length = 6; }, {3, 2, 4}, {3, 2, 4}),
            "[cp] sequences of 6 tokens cannot be divided into 2 x 2 equal pieces; expected a multiple of 4");
  EXPECT_EQ(
      message(nothing, {4, 3, 4}, {4, 1, 4}),
      "[cp] 3 heads with 1 key head cannot be divided among 2 ranks; expected a multiple of 2 heads, and key heads "
      "that are a multiple or a divisor of 2");
  EXPECT_EQ(
      message(nothing, {4, 6, 4}, {4, 3, 4}),
      "[cp] 6 heads with 3 key heads cannot be divided among 2 ranks; expected a multiple of 2 heads, and key heads "
      "that are a multiple or a divisor of 2");
}

TEST(ContextAttentionErrors, RefuseBoundsOfTheWrongLength) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const comm::SelfGroup self;
  ContextAttention c{.split = {.sequences = 1, .length = 4}, .group = &self, .first = lab.values<int32_t>({0, 0, 0})};
  try {
    const Value x = {lab.randn({4, 1, 4})};
    context_attention(tape, x, x, x, c);
    FAIL() << "3 bounds for 4 rows were accepted; expected an error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[cp] first is i32 [3]; expected contiguous i32, with one entry for each of 4 local rows");
  }
}

}  // namespace
}  // namespace hexad::tests
