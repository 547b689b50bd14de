#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "framework/tensor/tensor.h"

namespace hexad::tensor {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

class TensorTest : public testing::Test {
 protected:
  // Returns 0, 1, 2, ... in row-major order.
  Tensor counting(Shape shape) {
    std::vector<int32_t> v(shape.numel());
    std::iota(v.begin(), v.end(), 0);
    return Tensor::from<int32_t>(v, shape, context);
  }
  device::DeviceContext context{{.poison = true}};
};

TEST_F(TensorTest, UndefinedHasNoStorage) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(counting({2}).defined());
}

TEST_F(TensorTest, EmptyIsUninitialisedAndZerosIsZero) {
  const Tensor e = Tensor::empty({2, 3}, Dtype::f32, context), z = Tensor::zeros({2, 3}, Dtype::f32, context);
  for (float v : e.to_vector<float>()) EXPECT_TRUE(std::isnan(v));
  for (float v : z.to_vector<float>()) EXPECT_EQ(v, 0);
}

TEST_F(TensorTest, IsAccountedInItsCategoryUntilTheLastHandleIsDestroyed) {
  const auto used = [&](Category c) { return context.allocator()->stats().used_in(c); };
  {
    const Tensor t = Tensor::empty({4, 4}, Dtype::f64, context, Category::optimizer);
    EXPECT_EQ(used(Category::optimizer), 128);
    Tensor part = t.slice(0, 0, 1);
    EXPECT_EQ(used(Category::optimizer), 128) << "a slice shares storage";
    EXPECT_FALSE(t.sole_owner());
    part = {};
    EXPECT_TRUE(t.sole_owner());
    t.storage()->set_category(Category::activation);
    EXPECT_EQ(used(Category::optimizer), 0);
    EXPECT_EQ(used(Category::activation), 128);
  }
  EXPECT_EQ(used(Category::activation), 0);
}

TEST_F(TensorTest, OffloadedTensorCountsInTheOffloadCategory) {
  const Tensor t = Tensor::offloaded({4}, Dtype::f64, context);
  EXPECT_EQ(context.offload_allocator()->stats().used_in(Category::offload), 32);
  EXPECT_EQ(context.allocator()->stats().total, 0);
  t.data<double>()[3] = 5;
  EXPECT_EQ(t.to_vector<double>()[3], 5);
}

TEST_F(TensorTest, SliceSharesStorageAndIsStridedUnlessOfRows) {
  const Tensor t = counting({3, 4});
  const Tensor rows = t.slice(0, 1, 3), columns = t.slice(1, 1, 3);
  EXPECT_TRUE(rows.contiguous());
  EXPECT_EQ(rows.to_vector<int32_t>(), (std::vector<int32_t>{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(columns.strides(), (Shape{4, 1}));
  const auto v = columns.view<int32_t, 2>();
  EXPECT_EQ(v(0, 0), 1);
  EXPECT_EQ(v(2, 1), 10);
  v(2, 1) = -1;
  EXPECT_EQ(t.to_vector<int32_t>()[10], -1);
}

TEST_F(TensorTest, SliceOfASliceCountsFromTheSlice) {
  const Tensor t = counting({6, 4}).slice(0, 2, 6).slice(1, 1, 4).slice(0, 1, 2);
  const auto v = t.view<int32_t, 2>();
  EXPECT_EQ(v(0, 0), 13);
  EXPECT_EQ(v(0, 2), 15);
}

TEST_F(TensorTest, SliceOfOneRowAndTensorOfOneColumnAreContiguous) {
  EXPECT_TRUE(counting({1, 4}).slice(1, 1, 3).contiguous());
  EXPECT_TRUE(counting({3, 1}).contiguous());
}

// A rank without tokens slices a tensor without rows, which has no memory block.
TEST_F(TensorTest, SlicesWithoutRowsAreEmptyAndContiguous) {
  const Tensor nothing = Tensor::empty({0, 6}, Dtype::f32, context);
  EXPECT_EQ(nothing.bytes(), 0);
  const Tensor some = counting({3, 4});
  const Tensor half = nothing.slice(1, 3, 6), rows = nothing.slice(0, 0, 0), end = some.slice(0, 3, 3);
  for (const Tensor& t : {half, rows, end}) {
    EXPECT_EQ(t.numel(), 0);
    EXPECT_TRUE(t.contiguous());
  }
  EXPECT_EQ(half.address(), nothing.address());
  EXPECT_EQ(rows.address(), nothing.address());
  EXPECT_EQ(end.address(), some.address());
  EXPECT_EQ(half.reshape({0, 3, 1}).shape(), (Shape{0, 3, 1}));
  EXPECT_TRUE(half.to_vector<float>().empty());
}

TEST_F(TensorTest, ReshapeSharesStorageAndFindsOneUnknownSize) {
  const Tensor t = counting({3, 4});
  const Tensor r = t.reshape({2, -1, 3});
  EXPECT_EQ(r.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(r.raw(), t.raw());
  EXPECT_EQ(t.reshape({12}).shape(), (Shape{12}));
  EXPECT_EQ(counting({1}).reshape({}).rank(), 0);
}

TEST_F(TensorTest, ReshapeErrorsNameTheShapes) {
  const Tensor t = counting({3, 4});
  EXPECT_EQ(message_of([&] { t.reshape({5, 2}); }), "[tensor] reshape of [3, 4] to [5, 2]; expected 12 elements");
  EXPECT_EQ(message_of([&] {
              t.reshape({5, -1});
            }),
            "[tensor] reshape of [3, 4] to [5, -1]; expected sizes whose product divides the number of elements, 12");
  EXPECT_EQ(message_of([&] {
              t.reshape({-1, 0});
            }),
            "[tensor] reshape of [3, 4] to [-1, 0]; expected sizes whose product divides the number of elements, 12");
  EXPECT_EQ(message_of([&] {
              t.reshape({-1, -1});
            }),
            "[tensor] reshape of [3, 4] to [-1, -1] with several unknown sizes (-1); expected at most one");
  EXPECT_EQ(message_of([&] { t.reshape({-12}); }), "[shape] negative size in [-12]; expected at least 0");
  EXPECT_EQ(message_of([&] { t.slice(1, 0, 2).reshape({6}); }),
            "[tensor] reshape of a strided tensor [3, 2]; expected a contiguous tensor");
}

TEST_F(TensorTest, SliceErrorsNameTheShapeAndTheRangeOrDimension) {
  const Tensor t = counting({3, 4});
  EXPECT_EQ(message_of([&] { t.slice(0, 2, 4); }),
            "[tensor] slice [2, 4) of dimension 0 of shape [3, 4] is out of range; expected 0 <= begin <= end <= 3");
  EXPECT_EQ(message_of([&] { t.slice(1, 3, 2); }),
            "[tensor] slice [3, 2) of dimension 1 of shape [3, 4] is out of range; expected 0 <= begin <= end <= 4");
  EXPECT_EQ(message_of([&] { t.slice(0, -1, 2); }),
            "[tensor] slice [-1, 2) of dimension 0 of shape [3, 4] is out of range; expected 0 <= begin <= end <= 3");
  EXPECT_EQ(message_of([&] { t.slice(2, 0, 0); }), "[shape] dimension 2 of [3, 4] does not exist; expected -2 to 1");
}

TEST_F(TensorTest, AccessErrorsNameTheFoundAndTheExpected) {
  const Tensor t = counting({3, 4});
  EXPECT_EQ(message_of([&] { t.data<float>(); }), "[tensor] access to [3, 4] as f32; expected its dtype, i32");
  EXPECT_EQ(message_of([&] { t.view<int32_t, 3>(); }), "[tensor] view of [3, 4] with rank 3; expected its rank, 2");
  EXPECT_EQ(message_of([&] { t.slice(1, 0, 2).to_vector<int32_t>(); }),
            "[tensor] to_vector of a strided tensor [3, 2]; expected a contiguous tensor");
  EXPECT_EQ(message_of([&] {
              counting({3, 2}).copy_from(t.slice(1, 0, 2), context.compute());
            }),
            "[tensor] copy of [3, 2] i32 with strides [4, 1] to [3, 2] i32 with strides [2, 1]; expected contiguous "
            "tensors with equal numbers of bytes");
  const std::vector<float> five(5);
  EXPECT_EQ(message_of([&] {
              Tensor::from<float>(five, {2, 3}, context);
            }),
            "[tensor] the number of values for [2, 3] is 5; expected 6");
}

TEST_F(TensorTest, OverflowingSizesAreRefusedBeforeAllocation) {
  constexpr int64_t half = int64_t{1} << 32;
  EXPECT_EQ(message_of([&] {
              Tensor::empty({half, half}, Dtype::u8, context);
            }),
            "[shape] more than 2^63 - 1 elements in [4294967296, 4294967296]");
  EXPECT_EQ(message_of([&] {
              Tensor::empty({half, half / 8}, Dtype::f64, context);
            }),
            "[tensor] more than 2^63 - 1 bytes in [4294967296, 536870912] f64; expected a smaller shape");
  EXPECT_EQ(message_of([&] { Tensor::empty({-1}, Dtype::f64, context); }),
            "[shape] negative size in [-1]; expected at least 0");
  EXPECT_EQ(context.allocator()->stats().total, 0);
}

TEST_F(TensorTest, LikeCopiesShapeDtypeAndDeviceAndNotTheStrides) {
  const Tensor t = counting({3, 4}).slice(1, 1, 3), like = Tensor::like(t, Category::activation);
  EXPECT_EQ(like.shape(), t.shape());
  EXPECT_EQ(like.dtype(), t.dtype());
  EXPECT_TRUE(like.device() == t.device());
  EXPECT_TRUE(like.contiguous());
  EXPECT_EQ(like.storage()->category(), Category::activation);
}

}  // namespace
}  // namespace hexad::tensor
