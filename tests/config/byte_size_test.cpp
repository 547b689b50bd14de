// Reading, writing and rejection of numbers of bytes.
#include "framework/config/byte_size.h"

#include <gtest/gtest.h>

#include "tests/config/example_recipe.h"

namespace example {

using namespace hexad::config;

namespace {

struct Memory {
  ByteSize limit = 0;
  std::optional<ByteSize> buffers;

  template <class V>
  void fields(V& v) {
    v("limit", limit, "memory limit of a rank", at_least(0));
    v("buffers", buffers, "buffers of a pass", at_least(1));
  }
};

Memory memory_of(const std::string& text) {
  Problems problems;
  Memory m = read<Memory>(parse(text, "r.yaml", {}), problems);
  problems.throw_if_any();
  return m;
}

int64_t limit_of(const std::string& text) { return memory_of("limit: " + text + "\n").limit; }

std::string refusal_of_limit(const std::string& text) {
  return refusal([&] { limit_of(text); });
}

TEST(ByteSize, IsAnIntegerOrHasAUnit) {
  EXPECT_EQ(limit_of("0"), 0);
  EXPECT_EQ(limit_of("4096"), 4096);
  EXPECT_EQ(limit_of("17B"), 17);
  EXPECT_EQ(limit_of("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(limit_of("4 GiB"), int64_t{4} << 30);
  EXPECT_EQ(limit_of("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(limit_of("1.5GB"), 1500000000);
  EXPECT_EQ(limit_of("0.25KiB"), 256);
  EXPECT_EQ(limit_of("2TiB"), int64_t{2} << 40);
  EXPECT_EQ(limit_of("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(limit_of("8388607.5TiB"), 9223371487098961920) << "the product must not overflow";
  EXPECT_EQ(limit_of("1.50000000000000000000GB"), 1500000000) << "the number has more digits than a 64-bit integer";
  EXPECT_EQ(limit_of("0.0000000000009094947017729282379150390625TiB"), 1) << "all 40 decimals count";
  EXPECT_EQ(*memory_of("buffers: 64KiB\n").buffers, 65536);
  EXPECT_FALSE(memory_of("buffers: none\n").buffers.has_value());
}

TEST(ByteSize, RoundTripsThroughText) {
  const auto written = [](int64_t bytes) {
    Memory m;
    m.limit = bytes;
    const std::string text = write(m);
    EXPECT_EQ(memory_of(text).limit, bytes) << text;
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(written(0), "limit: 0");
  EXPECT_EQ(written(1000), "limit: 1000");
  EXPECT_EQ(written(1024), "limit: 1KiB");
  EXPECT_EQ(written(1500000000), "limit: 1500000000");
  EXPECT_EQ(written(int64_t{3} << 29), "limit: 1536MiB");
  EXPECT_EQ(written(int64_t{4} << 40), "limit: 4TiB");
  EXPECT_EQ(written(INT64_MAX), "limit: 9223372036854775807");
}

TEST(ByteSize, RefusesOtherTextsAndIllegalSizes) {
  const std::string expected =
      "must be a number of bytes, plain or with a unit: B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers "
      "of 1024)";
  EXPECT_EQ(refusal_of_limit("4gb"), "r.yaml:1: limit (4gb) " + expected + "; write 4GB");
  EXPECT_EQ(refusal_of_limit("4G"), "r.yaml:1: limit (4G) " + expected + "; write 4GiB");
  EXPECT_EQ(refusal_of_limit("4 apples"), "r.yaml:1: limit (4 apples) " + expected);
  EXPECT_EQ(refusal_of_limit("much"), "r.yaml:1: limit (much) " + expected);
  EXPECT_EQ(refusal_of_limit("1.2.3GB"), "r.yaml:1: limit (1.2.3GB) " + expected);
  EXPECT_EQ(refusal_of_limit("[1]"), "r.yaml:1: limit (a list) " + expected);
  EXPECT_EQ(refusal_of_limit("1e9"), "r.yaml:1: limit (1e9) must be an integer; write 1000000000");
  EXPECT_EQ(refusal_of_limit("0.3KiB"),
            "r.yaml:1: limit (0.3KiB) must be a whole number of bytes; 0.3KiB is between 307 and 308");
  EXPECT_EQ(refusal_of_limit("9000000TiB"),
            "r.yaml:1: limit (9000000TiB) must be between 0 and 9223372036854775807 bytes");
  EXPECT_EQ(
      refusal_of_limit("0.3333333333333333333333KiB"),
      "r.yaml:1: limit (0.3333333333333333333333KiB) must be a whole number of bytes; 0.3333333333333333333333KiB "
      "is between 341 and 342");
  EXPECT_EQ(refusal_of_limit("3094850098213450687.24781056TiB"),
            "r.yaml:1: limit (3094850098213450687.24781056TiB) must be between 0 and 9223372036854775807 bytes")
      << "the digits times a TiB are 2^128";
  EXPECT_EQ(refusal([] { memory_of("buffers: 9000000TiB\n"); }),
            "r.yaml:1: buffers (9000000TiB) must be between 1 and 9223372036854775807 bytes");
  EXPECT_EQ(refusal_of_limit("\"4GiB\""), "r.yaml:1: limit (\"4GiB\") must be a number of bytes; remove the quotes");
  EXPECT_EQ(refusal_of_limit("-1"), "r.yaml:1: limit (-1) must be at least 0");
  EXPECT_EQ(refusal_of_limit("010MB"),
            "r.yaml:1: limit (010MB) must not start with 0, which YAML reads as octal; write 10MB");
  EXPECT_EQ(refusal([] { memory_of("buffers: 0KiB\n"); }), "r.yaml:1: buffers (0) must be at least 1");
}

TEST(ByteSize, SuggestionsReadDecimalCommasAndKeepTheUnit) {
  const auto suggested = [](const std::string& text) {
    const std::string message = refusal_of_limit(text);
    const size_t at = message.find("; write ");
    return at == std::string::npos ? "" : message.substr(at + 8);
  };
  EXPECT_EQ(suggested("1,5GiB"), "1.5GiB");
  EXPECT_EQ(suggested("1,5 gb"), "1.5GB");
  EXPECT_EQ(suggested("1,000MiB"), "1000MiB or 1.000MiB");
  EXPECT_EQ(suggested("1_000MiB"), "1000MiB");
  EXPECT_EQ(suggested("1_000"), "1000");
  EXPECT_EQ(suggested("0x10"), "16");
  EXPECT_EQ(suggested(".5GiB"), "0.5GiB");
  EXPECT_EQ(suggested("010gb"), "10GB");
  EXPECT_EQ(suggested("1.2.3gb"), "");
}

}  // namespace
}  // namespace example
