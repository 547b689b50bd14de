// Attention over ranks that share sequences equals attention of the whole sequences.
#include "parallel/cp/context_attention.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "framework/base/philox.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/cp/blocks.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {
namespace {

using comm::ProcessGroup;
using comm::TrafficClass;
using cp::ContextAttention;
using cp::ContextKind;
using cp::ContextSplit;
using cp::ContextTraffic;

constexpr ContextKind kinds[] = {ContextKind::ring, ContextKind::all_gather, ContextKind::ulysses};

std::string name_of(ContextKind kind) {
  for (const auto& [k, name] : cp::enum_names(kind))
    if (k == kind) return std::string(name);
  return "?";
}

struct Case {
  std::string name;
  ContextKind kind;
  int ranks;
  int64_t sequences, length, heads, groups, size;
  bool causal;
  /// Lengths of the packed documents; each sequence begins one document later. Empty: no documents.
  std::vector<int64_t> documents = {};
  int64_t padding = 0;  // the last tokens of every sequence see nothing
  Dtype dtype = Dtype::f64;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Bounds {
  std::vector<int32_t> first, last;  // of every token of the micro-batch; empty: no documents
};

Bounds bounds_of(const Case& c) {
  Bounds b;
  if (c.documents.empty()) return b;
  for (int64_t s = 0; s < c.sequences; ++s) {
    size_t document = static_cast<size_t>(s);
    for (int64_t begin = 0; begin < c.length;) {
      const int64_t end = std::min(begin + c.documents[document++ % c.documents.size()], c.length);
      for (int64_t i = begin; i < end; ++i) {
        const bool padding = i >= c.length - c.padding;
        b.first.push_back(static_cast<int32_t>(padding ? 0 : begin));
        b.last.push_back(static_cast<int32_t>(padding ? 0 : end));
      }
      begin = end;
    }
  }
  return b;
}

// What attention computes from, and what it must give: of the whole micro-batch, or of a rank's rows.
struct Whole {
  Tensor q, k, v, dout;
};
struct Results {
  Tensor out, dq, dk, dv;
};

Results results_of(Tape& tape, const Whole& in, const std::function<Value(Value q, Value k, Value v)>& f) {
  const Value q = tape.leaf(in.q), k = tape.leaf(in.k), v = tape.leaf(in.v), out = f(q, k, v);
  Replay replay(tape, std::vector<Replay::Root>{{out, in.dout}});
  replay.run();
  return {out.data, replay.take_gradient(q), replay.take_gradient(k), replay.take_gradient(v)};
}

Whole random_whole(Lab& lab, const Case& c) {
  const int64_t tokens = c.sequences * c.length;
  return {lab.randn({tokens, c.heads, c.size}, c.dtype), lab.randn({tokens, c.groups, c.size}, c.dtype),
          lab.randn({tokens, c.groups, c.size}, c.dtype), lab.randn({tokens, c.heads, c.size}, c.dtype)};
}

double scale_of(const Case& c) { return 1 / std::sqrt(static_cast<double>(c.size)); }

Results full_attention(Lab& lab, const Case& c, const Whole& in) {
  const Bounds b = bounds_of(c);
  const auto tensor = [&](const std::vector<int32_t>& v) { return v.empty() ? Tensor{} : lab.values(v); };
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  return results_of(tape, in, [&](Value q, Value k, Value v) {
    return attention(
        tape, q, k, v, tensor(b.first), tensor(b.last),
        {.sequences = c.sequences, .queries = c.length, .keys = c.length, .scale = scale_of(c), .causal = c.causal});
  });
}

// The rows of these tokens, on `lab`'s device.
Tensor rows_of(Lab& lab, const Tensor& whole, const std::vector<int64_t>& tokens) {
  const Tensor rows =
      Tensor::empty({static_cast<int64_t>(tokens.size()), whole.dim(1), whole.dim(2)}, whole.dtype(), lab.context);
  const int64_t bytes = whole.bytes() / whole.dim(0);
  for (size_t r = 0; r < tokens.size(); ++r)
    std::memcpy(static_cast<std::byte*>(rows.raw()) + static_cast<int64_t>(r) * bytes,
                static_cast<const std::byte*>(whole.raw()) + tokens[r] * bytes, static_cast<size_t>(bytes));
  return rows;
}

Whole rows_of(Lab& lab, const Whole& in, const std::vector<int64_t>& tokens) {
  return {rows_of(lab, in.q, tokens), rows_of(lab, in.k, tokens), rows_of(lab, in.v, tokens),
          rows_of(lab, in.dout, tokens)};
}

ContextAttention context_of(Lab& lab, const Case& c, const ProcessGroup& group) {
  ContextAttention a{
      .split = {.sequences = c.sequences, .length = c.length, .ranks = group.size(), .rank = group.rank()},
      .kind = c.kind,
      .group = &group,
      .causal = c.causal,
      .scale = scale_of(c)};
  const Bounds b = bounds_of(c);
  if (!b.first.empty()) a.first = lab.values(a.split.cut(b.first)), a.last = lab.values(a.split.cut(b.last));
  return a;
}

Results context_results(Lab& lab, Stream& stream, const Case& c, const Whole& whole, const ProcessGroup& group) {
  const ContextAttention a = context_of(lab, c, group);
  const auto policy = keep_policy();
  Tape tape(stream, *policy);
  return results_of(tape, rows_of(lab, whole, a.split.tokens()),
                    [&](Value q, Value k, Value v) { return context_attention(tape, q, k, v, a); });
}

void expect_rows(Lab& lab, const Case& c, const Results& whole, const Results& mine,
                 const std::vector<int64_t>& tokens) {
  // The rounding of partial results is small beside typical elements of the whole, not beside those of a lucky rank.
  const double allowed = tolerance(c.dtype, c.length * c.heads / c.groups);
  const Zeros zeros = c.documents.empty() ? Zeros::mistrusted : Zeros::expected;
  expect_close(rows_of(lab, whole.out, tokens), mine.out, allowed, zeros);
  expect_close(rows_of(lab, whole.dq, tokens), mine.dq, allowed, zeros);
  expect_close(rows_of(lab, whole.dk, tokens), mine.dk, allowed, zeros);
  expect_close(rows_of(lab, whole.dv, tokens), mine.dv, allowed, zeros);
}

class ContextAttentionOf : public testing::TestWithParam<Case> {};

TEST_P(ContextAttentionOf, L3_EqualsFullAttentionInOutputsAndGradients) {
  const Case& c = GetParam();
  Lab one;
  const Whole whole = random_whole(one, c);
  const Results expected = full_attention(one, c, whole);
  comm::with_ranks(c.ranks, [&](const ProcessGroup& world) {
    Lab lab;
    const auto tokens = context_of(lab, c, world).split.tokens();
    expect_rows(lab, c, expected, context_results(lab, lab.stream(), c, whole, world), tokens);
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (ContextKind kind : kinds)
    for (int ranks : {1, 2, 3, 4}) {
      const auto add = [&](Case c) {
        if (kind == ContextKind::ulysses && !cp::ulysses_fits(c.heads, c.groups, ranks)) return;
        c.name = cat(name_of(kind), "_", ranks, "_", c.name);
        all.push_back(std::move(c));
      };
      const int64_t chunks = 2 * ranks;
      add({"causal", kind, ranks, 1, 3 * chunks, 12, 12, 4, true});
      add({"bidirectional", kind, ranks, 1, 3 * chunks, 12, 12, 4, false});
      add({"sequences", kind, ranks, 3, 5 * chunks, 12, 4, 3, true});
      add({"grouped_queries", kind, ranks, 2, 3 * chunks, 12, 2, 5, true});
      add({"one_key_head", kind, ranks, 2, 3 * chunks, 12, 1, 7, false});
      add({"one_token_a_chunk", kind, ranks, 2, chunks, 12, 12, 4, false});
      add({"documents", kind, ranks, 2, 5 * chunks, 12, 4, 4, true, {7, 1, 4, 30}});
      add({"documents_bidirectional", kind, ranks, 2, 5 * chunks, 12, 1, 4, false, {7, 1, 4, 30}});
      add({"padding", kind, ranks, 2, 5 * chunks, 12, 12, 4, true, {7, 1, 4, 30}, 6});
      add({"padding_bidirectional", kind, ranks, 1, 5 * chunks, 12, 1, 4, false, {11, 40}, 6});
      add({"more_than_a_key_block", kind, ranks, 1, 131 * chunks, 12, 4, 4, true, {200, 5, 390}});
      add({"f32", kind, ranks, 2, 5 * chunks, 12, 4, 4, true, {}, 0, Dtype::f32});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(L3, ContextAttentionOf, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// Root of the mean square of the difference.
double distance(const Tensor& a, const Tensor& b) {
  const auto x = values_of(a), y = values_of(b);
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(squares / static_cast<double>(x.size()));
}

TEST(ContextAttention, InBf16RoundsAtMostTwiceAsMuchAsFullAttention) {  // whose sums are never stored in parts
  for (ContextKind kind : kinds)
    for (int ranks : {2, 4}) {
      const Case c{"bf16", kind, ranks, 2, 10 * ranks, 12, 1, 8, true, {}, 0, Dtype::bf16};
      Lab one;
      const Whole whole = random_whole(one, c);
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
          EXPECT_LE(distance(mine.*t, here), 2 * distance(rows_of(lab, rounded.*t, tokens), here)) << name_of(kind);
          EXPECT_EQ((mine.*t).dtype(), Dtype::bf16);
        }
      });
    }
}

Case small(ContextKind kind, int ranks) { return {"small", kind, ranks, 2, 4 * ranks, 4, 2, 4, true, {3, 6}}; }

TEST(ContextAttention, OfOneRankIsAttentionBitForBit) {
  for (ContextKind kind : kinds) {
    const Case c = small(kind, 1);
    Lab lab;
    const Whole whole = random_whole(lab, c);
    const Results expected = full_attention(lab, c, whole);
    const Results mine = context_results(lab, lab.stream(), c, whole, comm::SelfGroup{});
    expect_bitwise(expected.out, mine.out);
    expect_bitwise(expected.dq, mine.dq);
    expect_bitwise(expected.dk, mine.dk);
    expect_bitwise(expected.dv, mine.dv);
  }
}

// Sleeps before every piece of work, differently on every rank.
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

TEST(ContextAttention, O1_DelayedRanksNeitherDeadlockNorChangeABit) {
  for (ContextKind kind : kinds)
    for (int ranks : {2, 4}) {
      const Case c = small(kind, ranks);
      Lab one;
      const Whole whole = random_whole(one, c);
      comm::with_ranks(ranks, [&](const ProcessGroup& world) {
        Lab lab;
        DelayingStream delays(world.rank());
        const Results prompt = context_results(lab, lab.stream(), c, whole, world);
        for (int layer = 0; layer < 3; ++layer) {  // one after the other, nobody waits in between
          const Results late = context_results(lab, delays, c, whole, world);
          expect_bitwise(prompt.out, late.out);
          expect_bitwise(prompt.dq, late.dq);
          expect_bitwise(prompt.dk, late.dk);
          expect_bitwise(prompt.dv, late.dv);
        }
      });
    }
}

TEST(ContextAttention, AFailingRankEndsItsPeers) {
  for (ContextKind kind : kinds) {
    const Case c = small(kind, 2);
    Lab one;
    const Whole whole = random_whole(one, c);
    try {
      comm::with_ranks(2, [&](const ProcessGroup& world) {
        Lab lab;
        if (world.rank() == 1) fail(ExitCode::numeric, "loss is NaN");
        context_results(lab, lab.stream(), c, whole, world);
      });
      ADD_FAILURE() << name_of(kind);
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "loss is NaN");
    }
  }
}

TEST(ContextAttention, ReadsStridedHeads) {  // of one product for q, k and v
  for (ContextKind kind : kinds) {
    const Case c{"strided", kind, 2, 1, 12, 4, 4, 4, true};
    Lab one;
    const Whole whole = random_whole(one, c);
    comm::with_ranks(2, [&](const ProcessGroup& world) {
      Lab lab;
      const ContextAttention a = context_of(lab, c, world);
      const Whole mine = rows_of(lab, whole, a.split.tokens());
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

TEST(ContextAttention, SendsTheBytesThatTheFormulaSays) {
  for (ContextKind kind : kinds)
    for (int64_t groups : {4, 2})
      for (Dtype dtype : {Dtype::f64, Dtype::bf16})
        for (bool documents : {false, true}) {
          Case c{"bytes", kind, 4, 2, 8, 4, groups, 4, true, {}, 0, dtype};
          if (documents) c.documents = {3, 6};
          Lab one;
          const Whole whole = random_whole(one, c);
          comm::with_ranks(4, [&](const ProcessGroup& world) {
            const auto group = world.split(0, world.rank(), TrafficClass::cp, "cp");
            Lab lab;
            const ContextAttention a = context_of(lab, c, *group);
            const Whole mine = rows_of(lab, whole, a.split.tokens());
            const auto policy = keep_policy();
            Tape tape(lab.stream(), *policy);
            int64_t forward = 0;
            results_of(tape, mine, [&](Value q, Value k, Value v) {
              const Value out = context_attention(tape, q, k, v, a);
              forward = group->take(TrafficClass::cp).bytes;
              return out;
            });
            const ContextTraffic said = cp::context_traffic(kind, a.split, 4, groups, 4, dtype, documents);
            EXPECT_EQ(forward, said.forward) << name_of(kind);
            EXPECT_EQ(group->take(TrafficClass::cp).bytes, said.backward) << name_of(kind);
          });
        }
}

TEST(RingAttention, HoldsTwoBlocksOfKeysAndValuesInForwardAndThreeOfGradientsMoreInBackward) {
  for (int ranks : {2, 4}) {
    const Case c{"memory", ContextKind::ring, ranks, 1, 64, 2, 2, 8, true};
    Lab one;
    const Whole whole = random_whole(one, c);
    comm::with_ranks(ranks, [&](const ProcessGroup& world) {
      Lab lab;
      const ContextAttention a = context_of(lab, c, world);
      const Whole mine = rows_of(lab, whole, a.split.tokens());
      const auto& allocator = lab.context.allocator();
      const int64_t block = 2 * mine.k.bytes();  // keys and values
      const auto policy = keep_policy();
      Tape tape(lab.stream(), *policy);
      results_of(tape, mine, [&](Value q, Value k, Value v) {
        allocator->reset_peaks();
        const Value out = context_attention(tape, q, k, v, a);
        EXPECT_EQ(allocator->stats().peak_in(Category::communication), 2 * block);
        allocator->reset_peaks();
        return out;
      });
      EXPECT_EQ(allocator->stats().peak_in(Category::communication), 5 * block);
    });
  }
}

// Products of a query with a key, in all blocks that a rank computes.
int64_t work_of(const ContextSplit& split, bool causal) {
  const int64_t n = split.chunk_length();
  int64_t products = 0;
  for (int owner = 0; owner < split.ranks; ++owner)
    for (const cp::BlockPair& pair : cp::visible_pairs(split, owner, causal))
      products += pair.diagonal ? n * (n + 1) / 2 : n * n;
  return products;
}

TEST(RingAttention, GivesEveryRankTheSameWorkAndNoneTwice) {
  for (int ranks : {1, 2, 3, 4, 8}) {
    const int64_t length = 2 * ranks * 5;
    for (int rank = 0; rank < ranks; ++rank) {
      const ContextSplit split{.length = length, .ranks = ranks, .rank = rank};
      EXPECT_EQ(work_of(split, true) * ranks, length * (length + 1) / 2) << "rank " << rank << " of " << ranks;
      EXPECT_EQ(work_of(split, false) * ranks, length * length) << "rank " << rank << " of " << ranks;
    }
  }
}

TEST(RingAttention, IsEvenAtEveryStep) {  // a rank with more to do at one step would keep the others waiting
  for (int ranks : {2, 3, 4})
    for (int rank = 0; rank < ranks; ++rank)
      for (int owner = 0; owner < ranks; ++owner) {
        const ContextSplit split{.length = 4 * ranks, .ranks = ranks, .rank = rank};
        EXPECT_EQ(cp::visible_pairs(split, owner, true).size(), owner == rank ? 3u : 2u);
        EXPECT_EQ(cp::visible_pairs(split, owner, false).size(), 4u);
      }
}

TEST(ContextAttentionErrors, NameWhatDoesNotFit) {
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
  EXPECT_EQ(message([](auto& c) { c.group = nullptr; }, {4, 2, 4}, {4, 1, 4}), "[cp] rank 1 of 2 is given no group");
  EXPECT_EQ(message([](auto& c) { c.split.rank = 0, c.split.ranks = 1; }, {4, 2, 4}, {4, 1, 4}),
            "[cp] rank 0 of 1 is given rank 1 of a group of 2");
  EXPECT_EQ(message(nothing, {4, 2, 4}, {4, 1, 3}), "[cp] q is [4, 2, 4], k [4, 1, 3], v [4, 1, 3]");
  EXPECT_EQ(message(nothing, {8, 2, 4}, {8, 2, 4}),
            "[cp] 1 sequences of 8 tokens on 2 ranks are 4 rows each; q is [8, 2, 4], k [8, 2, 4]");
  EXPECT_EQ(message([](auto& c) { c.split.length = 6; }, {3, 2, 4}, {3, 2, 4}),
            "[cp] sequences of 6 tokens do not cut into 2 x 2 equal chunks; expected a multiple of 4");
  EXPECT_EQ(message(nothing, {4, 3, 4}, {4, 1, 4}),
            "[cp] 3 heads with 1 key heads do not spread over 2 ranks; expected a multiple of 2 heads, and key heads "
            "that are a multiple or a divisor of 2");
  EXPECT_EQ(message(nothing, {4, 6, 4}, {4, 3, 4}),
            "[cp] 6 heads with 3 key heads do not spread over 2 ranks; expected a multiple of 2 heads, and key heads "
            "that are a multiple or a divisor of 2");
}

TEST(ContextAttentionErrors, RefuseBoundsThatAreNotOneARow) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const comm::SelfGroup self;
  ContextAttention c{.split = {.sequences = 1, .length = 4}, .group = &self, .first = lab.values<int32_t>({0, 0, 0})};
  try {
    const Value x = {lab.randn({4, 1, 4})};
    context_attention(tape, x, x, x, c);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[cp] first and last have one i32 entry for each of 4 local rows, not i32 [3]");
  }
}

}  // namespace
}  // namespace hexad::tests
