#include "tools/hexad/eigen_product.h"

#define EIGEN_DONT_PARALLELIZE  // the code below distributes the rows over threads
#include <Eigen/Core>

#include "framework/kernels/cpu/parallel.h"

namespace hexad::app {
namespace {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
void multiply(const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& w) {
  const Eigen::Map<const RowMajor<T>> left(x.data<T>(), x.dim(0), x.dim(1)), right(w.data<T>(), w.dim(0), w.dim(1));
  Eigen::Map<RowMajor<T>> result(out.data<T>(), out.dim(0), out.dim(1));
  const int64_t threads = kernels::cpu::thread_count();
  kernels::cpu::parallel_for(out.dim(0), (out.dim(0) + threads - 1) / threads, [&](int64_t begin, int64_t end) {
    result.middleRows(begin, end - begin).noalias() = left.middleRows(begin, end - begin) * right.transpose();
  });
}

}  // namespace

void eigen_product(const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& w) {
  base::with_dtype<float, double>("eigen_product", x.dtype(), [&]<class T>() { multiply<T>(out, x, w); });
}

std::string eigen_description() {
  return base::cat("Eigen ", EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION, ", compiled for ",
                   Eigen::SimdInstructionSetsInUse());
}

}  // namespace hexad::app
