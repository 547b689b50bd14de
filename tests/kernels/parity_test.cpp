// Compares every entry of the CPU table with the reference, for several dtypes and sizes.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;

using namespace base;
namespace {

constexpr uint64_t seed = 20240611;

TEST(KernelTable, HasNoHoles) {
  EXPECT_EQ(holes_of(reference_table), "");
  EXPECT_EQ(holes_of(cpu_table), "");
}

TEST(KernelTable, HolesAreNamed) {
  KernelTable table = cpu_table;
  table.swiglu.backward = {};
  EXPECT_EQ(holes_of(table), "swiglu.backward has no kernel\n");
}

// A kernel without a return value must mark an output in its signature.
static_assert(has_effect<int64_t, int64_t> && has_effect<void, Stream&, Out<Tensor>, const Tensor&>);
static_assert(!has_effect<void, Stream&, const Tensor&, const Tensor&>);

TEST(KernelTable, EveryEntryHasAParityCase) {
  std::set<size_t> covered;
  for (const Case& c : all_cases()) covered.insert(c.entry);
  for_each_entry([&]<auto Family, auto Entry>(const EntryName& name) {
    EXPECT_TRUE(covered.contains(entry(Family, Entry))) << name;
  });
}

class Parity : public ::testing::TestWithParam<std::tuple<Case, Dtype>> {};

TEST_P(Parity, CpuEqualsReference) {
  const auto& [c, dtype] = GetParam();
  for (const Size& size : sizes()) {
    SCOPED_TRACE(cat("seed ", seed, ", rows ", size.rows, ", width ", size.width));
    Trial expected(seed, size, dtype), actual(seed, size, dtype);
    c.body(reference_table, expected);
    c.body(cpu_table, actual);
    EXPECT_EQ(difference(expected, actual), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Parity, ::testing::ValuesIn(in_their_dtypes(all_cases())), [](const auto& p) {
  return cat(std::get<Case>(p.param).name, "_", std::get<Dtype>(p.param));
});

// Returns an output filled with `value`, for tests of the comparison itself.
Tensor filled(Trial& r, double value) {
  const Tensor t = r.output({3, 5});
  reference_table.pointwise.fill(r.stream, t, value);
  return t;
}

TEST(Judge, NamesTheCoordinateOfAWrongElement) {
  Trial expected(seed, {3, 5}, Dtype::f32), actual(seed, {3, 5}, Dtype::f32);
  filled(expected, 2);
  filled(actual, 2).data<float>()[7] = 2.5f;
  EXPECT_NE(difference(expected, actual).find("1 of 15 elements differ; first at [1, 2]: expected 2, got 2.5"),
            std::string::npos)
      << difference(expected, actual);
}

TEST(Judge, DetectsAnUnwrittenElement) {
  Trial expected(seed, {3, 5}, Dtype::f32), actual(seed, {3, 5}, Dtype::f32);
  filled(expected, 2);
  actual.output({3, 5});
  EXPECT_NE(difference(expected, actual).find("nan (tolerance"), std::string::npos) << difference(expected, actual);
}

TEST(Judge, DetectsAnUnwrittenInteger) {
  Trial expected(seed, {3, 5}, Dtype::f32), actual(seed, {3, 5}, Dtype::f32);
  reference_table.pointwise.fill(expected.stream, expected.output({3, 5}, Dtype::i32), -1);
  actual.output({3, 5}, Dtype::i32);
  EXPECT_NE(difference(expected, actual).find("expected -1, got"), std::string::npos) << difference(expected, actual);
}

TEST(Judge, DetectsAWriteIntoTheGuardBand) {
  Trial expected(seed, {3, 5}, Dtype::f32), actual(seed, {3, 5}, Dtype::f32);
  filled(expected, 2);
  filled(actual, 2).data<float>()[15] = 0;
  EXPECT_NE(difference(expected, actual).find("wrote outside"), std::string::npos) << difference(expected, actual);
}

TEST(Judge, RejectsAResultOfZeros) {
  Trial expected(seed, {3, 5}, Dtype::f32), actual(seed, {3, 5}, Dtype::f32);
  filled(expected, 0);
  filled(actual, 0);
  EXPECT_NE(difference(expected, actual).find("mistrusted"), std::string::npos) << difference(expected, actual);
}

}  // namespace
}  // namespace hexad::tests
