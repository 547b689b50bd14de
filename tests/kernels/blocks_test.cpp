// Kernels that process blocks, with operands of several blocks of the default sizes. All sums are exact, because values
// are whole numbers.
#include <gtest/gtest.h>

#include "framework/base/block_sizes.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

using namespace base;
using namespace tensor;
namespace {

class Blocks : public testing::Test {
 protected:
  template <class T>
  Tensor counting(const Shape& shape, int period) {
    std::vector<T> values(shape.numel());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>(static_cast<float>(static_cast<int>(i % static_cast<size_t>(period)) - period / 2));
    return Tensor::from<T>(values, shape, context);
  }
  device::DeviceContext context;
  Stream& stream = context.compute();
  const KernelTable& k = kernels(context);
};

TEST_F(Blocks, TotalsCoverAllElements) {
  for (const int64_t more : {0, 3}) {
    const int64_t n = 2 * BlockSizes{}.total_elements + more;
    const Tensor x = counting<float>({n}, 5), sum = Tensor::empty({1}, Dtype::f64, context),
                 squares = Tensor::like(sum);
    k.pointwise.sum(stream, sum, x, Write::replace);
    k.optimizer.squared_norm(stream, squares, x, Write::replace);
    double expected = 0, expected_squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(i % 5 - 2);
      expected += v, expected_squares += v * v;
    }
    EXPECT_EQ(*sum.data<double>(), expected);
    EXPECT_EQ(*squares.data<double>(), expected_squares);
  }
}

TEST_F(Blocks, SumsOfTensorsCoverAllElements) {
  const int64_t n = 2 * BlockSizes{}.cached_elements + 3;
  const std::vector<Tensor> addends{counting<bf16>({n}, 7), counting<bf16>({n}, 5), counting<bf16>({n}, 3)};
  const Tensor out = Tensor::like(addends[0]);
  k.pointwise.sum_of(stream, out, addends);
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(static_cast<float>(out.data<bf16>()[i]), static_cast<float>(i % 7 - 3 + i % 5 - 2 + i % 3 - 1)) << i;
}

TEST_F(Blocks, ProductIsAddedToEveryRowOfABf16Tensor) {
  const int64_t outputs = 1030, inputs = 1025, rows = 3;
  ASSERT_GT(outputs * inputs, BlockSizes{}.rounded_elements);
  const Tensor dw = counting<bf16>({outputs, inputs}, 9), dy = counting<bf16>({rows, outputs}, 7),
               x = counting<bf16>({rows, inputs}, 3);
  const std::vector<bf16> before = dw.to_vector<bf16>();
  k.matmul.weight_gradient(stream, dw, dy, x, Write::add);
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t i = 0; i < inputs; ++i) {
      float sum = static_cast<float>(before[o * inputs + i]);
      for (int64_t r = 0; r < rows; ++r)
        sum +=
            static_cast<float>(dy.data<bf16>()[r * outputs + o]) * static_cast<float>(x.data<bf16>()[r * inputs + i]);
      ASSERT_EQ(static_cast<float>(dw.data<bf16>()[o * inputs + i]), sum) << o << ", " << i;
    }
}

}  // namespace
}  // namespace hexad::kernels
