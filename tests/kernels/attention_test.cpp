#include "framework/kernels/cpu/blockwise_attention.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "framework/base/tolerance.h"
#include "framework/kernels/cpu/attention_tile.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "tests/support/guarded.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

using tests::Guarded;

struct Case {
  const char* name;
  int64_t sequences, queries, keys, heads, key_heads, size;
  bool causal = true;
  int64_t query_offset = 0;
  bool documents = false;
  int64_t window = 0;
  int64_t value_size = 0;
};
// Sizes near the kernel's block sizes, which are 6, 14 or 42 queries, 256 keys, and 256 elements of a head.
const Case cases[] = {
    {"OneOfEverything", 1, 1, 1, 1, 1, 1},
    {"SmallAndOdd", 2, 7, 7, 3, 1, 7},
    {"GroupedQueries", 2, 65, 65, 4, 2, 64},
    {"SeveralKeyBlocks", 1, 531, 531, 2, 1, 33},
    {"WideHead", 1, 45, 45, 1, 1, 301},
    {"Bidirectional", 1, 43, 270, 2, 2, 16, false},
    {"OneQueryWithACache", 2, 1, 301, 2, 1, 32, true, 300},
    {"SomeQueriesWithACache", 1, 9, 70, 2, 1, 32, true, 61},
    {"PackedDocuments", 2, 300, 300, 2, 1, 16, true, 0, true},
    {"PackedDocumentsBidirectional", 1, 280, 280, 2, 2, 19, false, 0, true},
    {"Window", 2, 531, 531, 2, 1, 16, true, 0, false, 260},
    {"NarrowWindow", 1, 300, 300, 2, 2, 19, true, 0, false, 3},
    {"WindowWithACache", 1, 9, 310, 2, 1, 32, true, 301, false, 40},
    {"WindowOfPackedDocuments", 1, 300, 300, 2, 1, 16, true, 0, true, 30},
    {"SmallerValues", 1, 300, 300, 2, 2, 48, true, 0, false, 0, 32},
    {"OneElementOfValues", 2, 43, 43, 2, 1, 7, true, 0, false, 0, 1},
    {"SmallerValuesOfAWideHead", 1, 45, 45, 1, 1, 301, true, 0, false, 0, 257},
    {"SmallerValuesOfPackedDocuments", 1, 300, 300, 2, 1, 33, true, 0, true, 0, 19},
};

class Attention : public testing::TestWithParam<std::tuple<Case, Dtype>> {
 protected:
  Tensor random(const Shape& shape, Dtype dtype) {
    const Tensor t = Tensor::empty(shape, dtype, context_);
    std::uniform_real_distribution<double> uniform(-1, 1);
    with_dtype<float, bf16, double>("test", dtype, [&]<class T>() {
      for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = T(static_cast<accumulator_t<T>>(uniform(generator_)));
    });
    return t;
  }
  // Zeroes the elements of each head of x[T, H, C] whose index is at least `size`. Does nothing if `size` is 0.
  static void clear_from(const Tensor& x, int64_t size) {
    if (size == 0) return;
    with_dtype<float, bf16, double>("test", x.dtype(), [&]<class T>() {
      const auto view = x.view<T, 3>();
      for (int64_t i = 0; i < x.dim(0); ++i)
        for (int64_t h = 0; h < x.dim(1); ++h)
          for (int64_t c = size; c < x.dim(2); ++c) view(i, h, c) = T{};
    });
  }
  Tensor indices(const std::vector<int32_t>& values) {
    return Tensor::from<int32_t>(values, {static_cast<int64_t>(values.size())}, context_);
  }

  device::DeviceContext context_;
  Stream& stream_ = context_.compute();
  std::mt19937_64 generator_{20240229};
};

/// Values of any floating tensor [tokens, heads, size] as double. All values are 0 if `zero` is true.
struct Array {
  int64_t heads, size;
  std::vector<double> values;

  Array(const Tensor& t, bool zero) : heads(t.dim(1)), size(t.dim(2)) {
    with_dtype<float, bf16, double>("test", t.dtype(), [&]<class T>() {
      const auto view = t.view<T, 3>();
      for (int64_t i = 0; i < t.dim(0); ++i)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t c = 0; c < size; ++c) values.push_back(zero ? 0 : static_cast<double>(view(i, h, c)));
    });
  }
  double& operator()(int64_t token, int64_t head, int64_t c) { return values[(token * heads + head) * size + c]; }
};

/// Attention by its definition, in double.
struct Naive {
  Array q, k, v, dout, out, dq, dk, dv;
  std::vector<double> log_sum_exp;

  Naive(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& dout_, const std::vector<int32_t>& first,
        const std::vector<int32_t>& last, const AttentionShape& s)
      : q(q_, false),
        k(k_, false),
        v(v_, false),
        dout(dout_, false),
        out(q_, true),
        dq(q_, true),
        dk(k_, true),
        dv(v_, true) {
    for (int64_t b = 0; b < s.sequences; ++b)
      for (int64_t i = 0; i < s.queries; ++i)
        for (int64_t h = 0; h < q.heads; ++h) {
          const size_t row = b * s.queries + i;
          const int64_t until = last.empty() ? s.keys : last[row];
          int64_t begin = first.empty() ? 0 : first[row];
          if (s.window > 0) begin = std::max(begin, i + s.query_offset - s.window + 1);
          query(b, i, h, begin, s.causal ? std::min(until, i + s.query_offset + 1) : until, s);
        }
  }

  void query(int64_t b, int64_t i, int64_t h, int64_t begin, int64_t end, const AttentionShape& s) {
    const int64_t t = b * s.queries + i, base = b * s.keys, g = h / (q.heads / k.heads);
    std::vector<double> p;
    double sum = 0, mean = 0;
    for (int64_t j = begin; j < end; ++j) {
      double score = 0;
      for (int64_t c = 0; c < q.size; ++c) score += q(t, h, c) * k(base + j, g, c);
      sum += p.emplace_back(std::exp(s.scale * score));
    }
    log_sum_exp.push_back(begin < end ? std::log(sum) : -std::numeric_limits<double>::infinity());
    for (int64_t j = begin; j < end; ++j) {
      double& pj = p[j - begin];
      pj /= sum;
      for (int64_t c = 0; c < q.size; ++c) {
        out(t, h, c) += pj * v(base + j, g, c);
        dv(base + j, g, c) += pj * dout(t, h, c);
      }
    }
    for (int64_t c = 0; c < q.size; ++c) mean += dout(t, h, c) * out(t, h, c);
    for (int64_t j = begin; j < end; ++j) {
      double dp = 0;
      for (int64_t c = 0; c < q.size; ++c) dp += dout(t, h, c) * v(base + j, g, c);
      const double ds = s.scale * p[j - begin] * (dp - mean);
      for (int64_t c = 0; c < q.size; ++c) {
        dq(t, h, c) += ds * k(base + j, g, c);
        dk(base + j, g, c) += ds * q(t, h, c);
      }
    }
  }
};

/// Expects errors that are small relative to one plus the largest magnitude in `want`. Softmax and its gradient mix all
/// elements of a row, so the error of a small element may be large relative to this element.
void expect_near(const char* name, const Tensor& t, const Array& want, int64_t terms) {
  const Array got(t, false);
  double largest = 0;
  for (double x : want.values) largest = std::max(largest, std::abs(x));
  const double limit = tolerance(t.dtype(), terms) * (1 + largest);
  for (size_t i = 0; i < want.values.size(); ++i)
    ASSERT_LE(std::abs(got.values[i] - want.values[i]), limit)
        << name << "[" << i << "] of " << t.shape() << " is " << got.values[i] << "; expected " << want.values[i];
}

TEST_P(Attention, OutputAndGradientsMatchTheDefinition) {
  const auto& [c, dtype] = GetParam();
  const int64_t tokens = c.sequences * c.queries, key_tokens = c.sequences * c.keys;
  // q, k and v are parts of one tensor, like results of a fused projection, if there are as many queries as keys.
  const bool fused = c.queries == c.keys;
  const Tensor together = random({std::max(tokens, key_tokens), c.heads + 2 * c.key_heads, c.size}, dtype);
  const Tensor q = fused ? together.slice(1, 0, c.heads) : random({tokens, c.heads, c.size}, dtype);
  const Tensor k = together.slice(0, 0, key_tokens).slice(1, c.heads, c.heads + c.key_heads);
  const Tensor v = together.slice(0, 0, key_tokens).slice(1, c.heads + c.key_heads, c.heads + 2 * c.key_heads);
  const Tensor dout = random({tokens, c.heads, c.size}, dtype);
  for (const Tensor& x : {v, dout}) clear_from(x, c.value_size);

  std::vector<int32_t> first, last;
  if (c.documents) {
    // Documents end after 1, 37 and 260 tokens, and at the end of the sequence. One row in fifty has no visible key.
    for (int64_t i = 0; i < tokens; ++i) {
      const auto at = static_cast<int32_t>(i % c.queries), end = static_cast<int32_t>(c.queries);
      const int32_t begin = at < 1 ? 0 : at < 37 ? 1 : at < 260 ? 37 : 260;
      first.push_back(begin);
      last.push_back(i % 50 == 13 ? begin : begin == 0 ? 1 : begin == 1 ? 37 : begin == 37 ? std::min(260, end) : end);
    }
  }
  const Tensor f = c.documents ? indices(first) : Tensor(), l = c.documents ? indices(last) : Tensor();
  const AttentionShape shape{.sequences = c.sequences,
                             .queries = c.queries,
                             .keys = c.keys,
                             .scale = 1 / std::sqrt(static_cast<double>(c.size)),
                             .causal = c.causal,
                             .query_offset = c.query_offset,
                             .window = c.window,
                             .value_size = c.value_size};
  const Naive want(q, k, v, dout, first, last, shape);

  const Guarded out(tokens, c.heads * c.size, dtype, context_), dq(tokens, c.heads * c.size, dtype, context_),
      dk(key_tokens, c.key_heads * c.size, dtype, context_), dv(key_tokens, c.key_heads * c.size, dtype, context_),
      log_sum_exp(tokens, c.heads, accumulator_dtype(dtype), context_);
  const auto by_head = [&](const Guarded& g) { return g.tensor().reshape({g.tensor().dim(0), -1, c.size}); };
  attention_forward(stream_, by_head(out), log_sum_exp.tensor(), q, k, v, f, l, shape);
  attention_backward(stream_, {by_head(dq), by_head(dk), by_head(dv)}, dout,
                     {by_head(out), log_sum_exp.tensor(), q, k, v, f, l}, shape);

  const int64_t terms = c.keys + c.size, group = c.heads / c.key_heads;
  expect_near("out", by_head(out), want.out, terms);
  expect_near("dq", by_head(dq), want.dq, terms);
  expect_near("dk", by_head(dk), want.dk, terms * group);
  expect_near("dv", by_head(dv), want.dv, terms * group);
  const Array sums(log_sum_exp.tensor().reshape({tokens, c.heads, 1}), false);
  const double limit = 8 * tolerance(accumulator_dtype(dtype), terms);
  for (size_t i = 0; i < want.log_sum_exp.size(); ++i)
    ASSERT_TRUE(sums.values[i] == want.log_sum_exp[i] || std::abs(sums.values[i] - want.log_sum_exp[i]) <= limit)
        << "log_sum_exp[" << i << "] is " << sums.values[i] << "; expected " << want.log_sum_exp[i];
  for (const Guarded* g : {&out, &dq, &dk, &dv, &log_sum_exp}) g->expect_band_untouched();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Attention, testing::Combine(testing::ValuesIn(cases), testing::Values(Dtype::f32, Dtype::bf16, Dtype::f64)),
    [](const auto& p) { return cat(std::get<0>(p.param).name, "_", name_of(std::get<1>(p.param))); });

class AttentionBits : public Attention {};
INSTANTIATE_TEST_SUITE_P(Dtypes, AttentionBits,
                         testing::Combine(testing::Values(cases[0]),
                                          testing::Values(Dtype::f32, Dtype::bf16, Dtype::f64)),
                         [](const auto& p) { return std::string(name_of(std::get<1>(p.param))); });

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

TEST_P(AttentionBits, OutputDoesNotDependOnLaterTokensOrTheirNumber) {
  const Dtype dtype = std::get<1>(GetParam());
  const int64_t all = 333, some = 301, heads = 2, size = 24;
  const Tensor q = random({all, heads, size}, dtype), k = random({all, 1, size}, dtype),
               v = random({all, 1, size}, dtype);
  const auto forward = [&](int64_t tokens) {
    const Tensor out = Tensor::empty({tokens, heads, size}, dtype, context_);
    const Tensor sums = Tensor::empty({tokens, heads}, accumulator_dtype(dtype), context_);
    attention_forward(stream_, out, sums, q.slice(0, 0, tokens), k.slice(0, 0, tokens), v.slice(0, 0, tokens), {}, {},
                      {.sequences = 1, .queries = tokens, .keys = tokens, .scale = 0.2});
    return out;
  };
  EXPECT_TRUE(same_bits(forward(all).slice(0, 0, some), forward(some)));
}

TEST_P(AttentionBits, BothInstructionSetsAgree) {
  if (machine_isa() != Isa::v4) GTEST_SKIP() << "this machine has no AVX-512";
  const Dtype dtype = std::get<1>(GetParam());
  const int64_t tokens = 290, heads = 2, size = 40;
  const Tensor q = random({tokens, heads, size}, dtype), k = random({tokens, 1, size}, dtype);
  const Tensor v = random({tokens, 1, size}, dtype), dout = random({tokens, heads, size}, dtype);
  for (const int64_t value_size : {size, size - 7}) {
    Tensor out[2], sums[2], dq[2], dk[2], dv[2];
    for (const int set : {0, 1}) {
      out[set] = Tensor::like(q), dq[set] = Tensor::like(q), dk[set] = Tensor::like(k), dv[set] = Tensor::like(v);
      sums[set] = Tensor::empty({tokens, heads}, accumulator_dtype(dtype), context_);
      const auto rows = [](const Tensor& t) { return HeadRows{t.raw(), t.strides()[0], t.strides()[1]}; };
      AttentionProblem p{};
      p.dtype = dtype;
      p.queries = p.keys = tokens, p.heads = heads, p.key_heads = 1, p.size = size, p.value_size = value_size;
      p.scale = 0.2, p.causal = true;
      p.q = rows(q), p.k = rows(k), p.v = rows(v), p.out = rows(out[set]), p.dout = rows(dout);
      p.dq = rows(dq[set]), p.dk = rows(dk[set]), p.dv = rows(dv[set]), p.log_sum_exp = sums[set].raw();
      const AttentionTask task{.sequence = 0, .key_head = 0, .first_query = 0, .end_query = tokens};
      const Tensor memory = Tensor::empty({attention_scratch(p, true) + 64}, Dtype::u8, context_);
      void* scratch = memory.data<uint8_t>() + (64 - reinterpret_cast<uintptr_t>(memory.raw()) % 64) % 64;
      (set == 0 ? v3::attention_forward : v4::attention_forward)(p, task, scratch);
      (set == 0 ? v3::attention_backward : v4::attention_backward)(p, task, scratch);
    }
    EXPECT_TRUE(same_bits(out[0], out[1]));
    EXPECT_TRUE(same_bits(sums[0], sums[1]));
    EXPECT_TRUE(same_bits(dq[0], dq[1]));
    EXPECT_TRUE(same_bits(dk[0], dk[1]));
    EXPECT_TRUE(same_bits(dv[0], dv[1]));
  }
}

TEST(AttentionErrors, NameTheTensorAndTheExpectation) {
  device::DeviceContext context;
  const auto zeros = [&](const Shape& shape, Dtype dtype = Dtype::f32) { return Tensor::zeros(shape, dtype, context); };
  const Tensor q = zeros({6, 4, 8}), k = zeros({6, 2, 8});
  const auto message = [&](const Tensor& out, const Tensor& sums, const Tensor& keys, const Tensor& first) {
    try {
      attention_forward(context.compute(), out, sums, q, keys, keys, first, {},
                        {.sequences = 2, .queries = 3, .keys = 3, .scale = 1});
    } catch (const std::logic_error& e) {
      return std::string(e.what());
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(message(zeros({6, 4, 7}), zeros({6, 4}), k, {}),
            "[attention] out is f32 [6, 4, 7]; expected f32 [6, 4, 8]");
  EXPECT_EQ(message(q, zeros({6, 2}), k, {}),
            "[attention] log_sum_exp is f32 [6, 2] with strides [2, 1]; expected contiguous f32 [6, 4]");
  EXPECT_EQ(message(q, zeros({6, 5}).slice(1, 0, 4), k, {}),
            "[attention] log_sum_exp is f32 [6, 4] with strides [5, 1]; expected contiguous f32 [6, 4]");
  EXPECT_EQ(message(q, zeros({6, 4}), zeros({6, 3, 8}), {}),
            "[attention] 4 query heads for 3 key heads; expected at least one key head, and a number of query heads "
            "divisible by the number of key heads");
  EXPECT_EQ(message(q, zeros({6, 4}), k, zeros({5}, Dtype::i32)),
            "[attention] first is i32 [5] with strides [1]; expected contiguous i32 [2, 3]");
}

}  // namespace
}  // namespace hexad::kernels::cpu
