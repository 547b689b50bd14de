// Compares every entry of the CPU table with the reference, for several dtypes and sizes. Also checks that kernels
// change only the outputs that their signatures mark.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/cases.h"
#include "tests/kernels/unmarked_writes.h"

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
  static const KernelTable reference = checking_marked_writes<reference_table>(),
                           cpu = checking_marked_writes<cpu_table>();
  const auto& [c, dtype] = GetParam();
  for (const Size& size : sizes()) {
    SCOPED_TRACE(cat("seed ", seed, ", rows ", size.rows, ", width ", size.width));
    Trial expected(seed, size, dtype), actual(seed, size, dtype);
    c.body(reference, expected);
    c.body(cpu, actual);
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

// Table with kernels that also write an operand that is not marked as an output.
KernelTable planted;

// Returns the message of the exception that `call` throws; empty if it throws none.
template <class F>
std::string message_of(const F& call) {
  try {
    call(checking_marked_writes<planted>());
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return {};
}

TEST(MarkedWrites, ReportAnOutputThatIsNotMarked) {
  planted = reference_table;
  planted.pointwise.add = [](Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
    reference_table.pointwise.add(stream, out, a, b);
    reference_table.pointwise.fill(stream, b, 7);
  };
  Trial r(seed, {3, 5}, Dtype::f32);
  const std::string message = message_of([&](const KernelTable& k) {
    k.pointwise.add(r.stream, r.output({3, 5}), r.normal({3, 5}), r.normal({3, 5}, Layout::strided_rows));
  });
  EXPECT_NE(message.find("[pointwise.add] the kernel changed operand 3, f32 [3, 5], which its signature does not mark; "
                         "expected Out<...>"),
            std::string::npos)
      << message;
}

TEST(MarkedWrites, ReportAChangedMemberOfAnOperandStruct) {
  planted = reference_table;
  planted.swiglu.backward = [](Stream& stream, const SwigluGradients& gradients, const Tensor& dout,
                               const SwigluSaved& saved) {
    reference_table.swiglu.backward(stream, gradients, dout, saved);
    reference_table.pointwise.fill(stream, saved.up, 7);
  };
  Trial r(seed, {3, 5}, Dtype::f32);
  const std::string message = message_of([&](const KernelTable& k) {
    k.swiglu.backward(r.stream, {.dgate = r.output({3, 5}), .dup = r.output({3, 5})}, r.normal({3, 5}),
                      {.gate = r.normal({3, 5}), .up = r.normal({3, 5})});
  });
  EXPECT_NE(message.find("[swiglu.backward] the kernel changed operand 3"), std::string::npos) << message;
}

TEST(MarkedWrites, ReportAChangedGradientOfAnOptimizerStep) {
  planted = reference_table;
  planted.optimizer.adamw = [](Stream& stream, std::span<const AdamwSlice> slices, const AdamwStep&, const Tensor&) {
    for (const AdamwSlice& s : slices)
      for (const Tensor& t : {s.main, s.gradient}) reference_table.pointwise.fill(stream, t, 7);
  };
  Trial r(seed, {3, 5}, Dtype::f32);
  const Tensor main = r.update({5}, Dtype::f32);
  const std::vector<AdamwSlice> slices{{.main = main,
                                        .m = r.update({5}, Dtype::f32),
                                        .v = r.update({5}, Dtype::f32),
                                        .weights = main,
                                        .gradient = r.normal({5}, Dtype::f32),
                                        .weight_decay = 0}};
  const std::string message = message_of([&](const KernelTable& k) { k.optimizer.adamw(r.stream, slices, {}, {}); });
  EXPECT_NE(message.find("[optimizer.adamw] the kernel changed operand 1"), std::string::npos) << message;
}

TEST(MarkedWrites, MayBeInputsToo) {
  planted = reference_table;
  Trial r(seed, {3, 5}, Dtype::f32);
  const Tensor in_place = r.update({3, 5}, Dtype::f32);
  EXPECT_EQ(message_of([&](const KernelTable& k) {
              k.pointwise.add(r.stream, in_place, in_place, r.normal({3, 5}));
            }),
            "");
}

}  // namespace
}  // namespace hexad::tests
