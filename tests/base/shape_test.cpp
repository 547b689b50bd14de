#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/placement.h"
#include "framework/base/shape.h"

namespace hexad::base {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((Shape{2, 3, 4}).numel(), 24);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{5, 0, 7}).numel(), 0);
}

TEST(Shape, IndexesFromBothEnds) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s[-3], 2);
}

TEST(Shape, HasRowMajorStrides) {
  EXPECT_EQ((Shape{2, 3, 4}).row_major_strides(), (Shape{12, 4, 1}));
  EXPECT_EQ((Shape{2, 0, 4}).row_major_strides(), (Shape{4, 4, 1}));
  EXPECT_EQ(Shape{}.row_major_strides(), Shape{});
}

TEST(Shape, PrintsItself) {
  EXPECT_EQ((Shape{2, 3}).to_string(), "[2, 3]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
}

TEST(Shape, DiffersByRankAndBySizes) {
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
}

TEST(Shape, ErrorsNameTheDimensionAndTheShape) {
  const Shape s{2, 3};
  EXPECT_EQ(message_of([&] { (void)s[2]; }), "[shape] dimension 2 of [2, 3] does not exist; expected -2 to 1");
  EXPECT_EQ(message_of([&] { (void)s[-3]; }), "[shape] dimension -3 of [2, 3] does not exist; expected -2 to 1");
  EXPECT_EQ(message_of([&] { (void)(Shape{2, -3}).numel(); }), "[shape] negative size in [2, -3]; expected at least 0");
  EXPECT_EQ(message_of([] { Shape s7{1, 2, 3, 4, 5, 6, 7}; }), "[shape] the rank is 7; expected at most 6");
}

TEST(Shape, OverflowOfTheElementCountIsAnError) {
  constexpr int64_t half = int64_t{1} << 32;
  const std::string expected = "[shape] more than 2^63 - 1 elements in [4294967296, 4294967296]";
  EXPECT_EQ(message_of([&] { (void)(Shape{half, half}).numel(); }), expected);
  EXPECT_EQ(message_of([&] { (void)(Shape{half, half}).row_major_strides(); }), expected);
  EXPECT_EQ((Shape{half, half / 4}).numel(), int64_t{1} << 62);
}

TEST(Shape, EmptyShapeMayHaveSizesWithAnOverflowingProduct) {
  constexpr int64_t large = int64_t{1} << 40;
  for (const Shape& shape : {Shape{large, large, 0}, Shape{0, large, large}, Shape{large, 0, large}})
    EXPECT_EQ(shape.numel(), 0) << shape;
  EXPECT_EQ(message_of([] { (void)(Shape{0, -3}).numel(); }), "[shape] negative size in [0, -3]; expected at least 0");
  EXPECT_EQ((Shape{large, large, 0}).row_major_strides(), (Shape{large, 1, 1}));
  EXPECT_EQ(message_of([&] {
              (void)(Shape{0, large, large}).row_major_strides();
            }),
            "[shape] the stride of dimension 0 of [0, 1099511627776, 1099511627776] exceeds 2^63 - 1");
}

TEST(Placement, RegionIsTheRectangleHeldHere) {
  const Placement replicated;
  const auto whole = replicated.region({8, 6});
  EXPECT_EQ(whole.begin, (Shape{0, 0}));
  EXPECT_EQ(whole.size, (Shape{8, 6}));
  const Placement cut{MeshView::expert, {{Axis::ep, 0, 4, 3}, {Axis::etp, 1, 2, 1}}};
  EXPECT_EQ(cut.region({8, 6}).begin, (Shape{6, 3}));
  EXPECT_EQ(cut.region({8, 6}).size, (Shape{2, 3}));
}

TEST(Placement, PiecesOfADimensionCutTwiceCoverItOnce) {
  std::vector<int> covered(12);
  for (int outer = 0; outer < 2; ++outer)
    for (int inner = 0; inner < 3; ++inner) {
      const Placement p{MeshView::dense, {{Axis::tp, 0, 2, outer}, {Axis::dp, 0, 3, inner}}};
      const auto r = p.region({12});
      for (int64_t i = r.begin[0]; i < r.begin[0] + r.size[0]; ++i) ++covered[i];
    }
  EXPECT_EQ(covered, std::vector<int>(12, 1));
}

TEST(Error, CarriesItsExitCodeAndItsParts) {
  try {
    fail(ExitCode::resource, "block of ", 3, " bytes");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_STREQ(e.what(), "block of 3 bytes");
  }
  EXPECT_EQ(message_of([] { require(false, "a ", 1); }), "a 1");
  EXPECT_NO_THROW(require(true, "a"));
}

}  // namespace
}  // namespace hexad::base
