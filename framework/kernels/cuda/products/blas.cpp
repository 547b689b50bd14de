#include "framework/kernels/cuda/products/blas.h"

#include <cublasLt.h>

#include <algorithm>
#include <compare>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/products/multiprocessors.h"
#include "framework/kernels/cuda/products/problem_cache.h"
#include "framework/kernels/operand_checks.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

using device::cuda::cuda_stream;

constexpr size_t max_workspace = size_t{32} << 20;  // the size that cuBLAS uses on Hopper
constexpr size_t max_problems = 4096;  // per cache; limited, because the experts' numbers of rows change in every step
constexpr uint32_t best_alignment = 256;

void check(cublasStatus_t status, std::string_view what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(ExitCode::resource, "[cublasLt] ", what, " failed: ", cublasLtGetStatusString(status));
}

cudaDataType_t data_type(Dtype dtype) {
  return dtype == Dtype::bf16 ? CUDA_R_16BF : dtype == Dtype::f64 ? CUDA_R_64F : CUDA_R_32F;
}

/// Returns the largest power of two, at most best_alignment, that divides the address.
uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p) | best_alignment;
  return static_cast<uint32_t>(address & (~address + 1));
}

/// A product in the terms of cuBLASLt, which uses column-major matrices. In memory, a row-major matrix [r, c] equals
/// its transpose, a column-major c x r matrix. The stride of our rows is the leading dimension of the column-major
/// matrix. The product out = left right is therefore out^T = right^T left^T for cuBLASLt:
///
///   our product                             | m, n, k     | A                     | B
///   out[m, n] = left[m, k] right[k, n]      | n, m, k     | right, n x k: as is   | left, k x m: as is
///     right is the transpose of w[n, k]     |             | w, k x n: transposed  |
///     left is the transpose of dy[k, m]     |             |                       | dy, m x k: transposed
///
/// Therefore A is the right factor, and B is the left factor. cuBLASLt transposes a factor if and only if our product
/// transposes it.
struct Problem {
  int64_t m, n, k, a_stride, b_stride, out_stride;
  Dtype in, out;
  bool a_transposed, b_transposed, add;
  uint32_t a_alignment, b_alignment, out_alignment;
  int multiprocessors;  // maximum number of multiprocessors for the product; 0: no limit

  auto operator<=>(const Problem&) const = default;
};

Problem problem_of(const Matrix& out, const Factor& left, const Factor& right, Write write, int multiprocessors) {
  const Matrix &a = right.matrix, &b = left.matrix;
  return {.m = out.columns,
          .n = out.rows,
          .k = left.columns(),
          .a_stride = a.stride,
          .b_stride = b.stride,
          .out_stride = out.stride,
          .in = left.dtype(),
          .out = out.tensor.dtype(),
          .a_transposed = right.transposed,
          .b_transposed = left.transposed,
          .add = write == Write::add,
          .a_alignment = alignment_of(device_raw(a.tensor)),
          .b_alignment = alignment_of(device_raw(b.tensor)),
          .out_alignment = alignment_of(device_raw(out.tensor)),
          .multiprocessors = multiprocessors};
}

/// Returns the problem for which the kernel of problem `p` is chosen: `p` with its number of rows rounded up if this
/// does not change a stride. The choice must not depend on anything but the returned problem, because another kernel
/// may compute different bits.
Problem chosen_for(Problem p) {
  if (!p.b_transposed) {
    p.n = rounded_rows(p.n);
  } else if (!p.a_transposed) {
    p.k = rounded_rows(p.k);
  }
  return p;
}

/// cuBLASLt descriptors of a Problem.
struct Description {
  cublasLtMatmulDescOpaque_t product{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, out{};
};

struct Choice {
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
  bool possible = false;
};

/// A product for cuBLASLt: its descriptors, and the kernel that computes it.
struct Matmul {
  Description problem;
  Choice kernel;
  bool borrowed = false;  // true if the kernel was chosen for another number of rows
};

Description describe(const Problem& p) {
  Description d;
  const bool wide = p.in == Dtype::f64;
  // CUBLAS_COMPUTE_32F does not round f32 operands. CUBLAS_COMPUTE_32F_FAST_TF32 would round them to TF32.
  check(cublasLtMatmulDescInit(&d.product, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                               wide ? CUDA_R_64F : CUDA_R_32F),
        "describing the product");
  const auto side = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(&d.product, attribute, &value, sizeof value), "describing the product");
  };
  side(CUBLASLT_MATMUL_DESC_TRANSA, p.a_transposed);
  side(CUBLASLT_MATMUL_DESC_TRANSB, p.b_transposed);
  const int32_t multiprocessors = p.multiprocessors;
  check(cublasLtMatmulDescSetAttribute(&d.product, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &multiprocessors,
                                       sizeof multiprocessors),
        "describing the product");
  const auto layout = [](cublasLtMatrixLayoutOpaque_t& to, Dtype dtype, int64_t rows, int64_t columns, int64_t stride) {
    check(cublasLtMatrixLayoutInit(&to, data_type(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   stride),
          "describing a matrix");
  };
  layout(d.a, p.in, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k, p.a_stride);
  layout(d.b, p.in, p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n, p.b_stride);
  layout(d.out, p.out, p.m, p.n, p.out_stride);
  return d;
}

template <class T>
void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "setting a preference");
}

/// cuBLASLt on one card, and a cache of products.
class Library {
 public:
  Library() { check(cublasLtCreate(&handle_), "creating the handle"); }
  ~Library() { cublasLtDestroy(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  cublasLtHandle_t handle() const { return handle_; }

  /// Returns the product of a problem. The reference is valid until the next call.
  Matmul& matmul(const Problem& problem) {
    return matmuls_.get(problem, [&] { return make_matmul(problem); });
  }
  /// Replaces the kernel of `matmul` by a kernel that is chosen for exactly this problem.
  void choose_own(Matmul& matmul, const Problem& problem) const {
    matmul.kernel = choose(problem);
    matmul.borrowed = false;
  }

 private:
  Matmul make_matmul(const Problem& p);
  Choice choose(const Problem& p) const;
  Choice checked(Description& d, const cublasLtMatmulAlgo_t& algorithm) const;

  cublasLtHandle_t handle_ = nullptr;
  ProblemCache<Problem, Choice> choices_{max_problems};  // keys are results of chosen_for()
  ProblemCache<Problem, Matmul> matmuls_{max_problems};
};

// Uses the kernel that was chosen for the rounded number of rows if the kernel also supports this problem. The choice
// of a kernel takes the host 20 to 60 microseconds, but a check takes only a few microseconds.
Matmul Library::make_matmul(const Problem& p) {
  Matmul matmul{.problem = describe(p), .kernel = {}};
  const Problem similar = chosen_for(p);
  matmul.kernel = choices_.get(similar, [&] { return choose(similar); });
  if (similar == p) return matmul;
  if (matmul.kernel.possible) matmul.kernel = checked(matmul.problem, matmul.kernel.algorithm);
  matmul.borrowed = matmul.kernel.possible;
  if (!matmul.borrowed) choose_own(matmul, p);
  return matmul;
}

// Returns the algorithm with the workspace that it needs for this problem. `possible` is false if the algorithm does
// not support the problem or needs more than max_workspace.
Choice Library::checked(Description& d, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_, &d.product, &d.a, &d.b, &d.out, &d.out, &algorithm, &result);
  const bool suits = status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= max_workspace;
  return {.algorithm = algorithm, .workspace = result.workspaceSize, .possible = suits};
}

Choice Library::choose(const Problem& p) const {
  Description d = describe(p);
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), "setting a preference");
  prefer(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{max_workspace});
  // Stores the partial sums of a split product in the workspace, in the accumulator dtype, because a bf16 result would
  // round them.
  prefer(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.a_alignment);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.b_alignment);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.out_alignment);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.out_alignment);

  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, &d.product, &d.a, &d.b, &d.out, &d.out, &preference, 1, &best, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "choosing a kernel");
  return {.algorithm = best.algo,
          .workspace = best.workspaceSize,
          .possible = found > 0 && best.state == CUBLAS_STATUS_SUCCESS};
}

}  // namespace

Matrix matrix(std::string_view op, std::string_view name, const Tensor& t) {
  const MatrixShape shape = matrix_shape(op, name, t);
  return {t, shape.rows, shape.columns, shape.stride};
}

bool multiply(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write) {
  device::cuda::Card& card = cuda_stream(stream).card();
  const int available = multiprocessors_of_products(card);
  const Problem problem = problem_of(out, left, right, write, available == card.multiprocessors() ? 0 : available);
  Library& library = card.shared<Library>();
  Matmul& matmul = library.matmul(problem);
  if (!matmul.kernel.possible) return false;

  const float singles[] = {1.0F, problem.add ? 1.0F : 0.0F};
  const double doubles[] = {1.0, problem.add ? 1.0 : 0.0};
  const bool wide = problem.in == Dtype::f64;
  const void* alpha = wide ? static_cast<const void*>(&doubles[0]) : &singles[0];
  const void* beta = wide ? static_cast<const void*>(&doubles[1]) : &singles[1];
  void* result = device_raw(out.tensor);
  Description& p = matmul.problem;
  const auto launch = [&] {
    // Each product gets a separate workspace, because streams must not share a workspace. The allocator caches the
    // memory.
    Tensor workspace;
    const size_t bytes = matmul.kernel.workspace;
    if (bytes > 0) workspace = Tensor::empty({static_cast<int64_t>(bytes)}, Dtype::u8, out.tensor.device());
    const auto queue = cuda_stream(stream).handle();
    return cublasLtMatmul(library.handle(), &p.product, alpha, device_raw(right.matrix.tensor), &p.a,
                          device_raw(left.matrix.tensor), &p.b, beta, result, &p.out, result, &p.out,
                          &matmul.kernel.algorithm, workspace.defined() ? device_raw(workspace) : nullptr, bytes,
                          queue.get());
  };
  cublasStatus_t status = launch();
  if (status != CUBLAS_STATUS_SUCCESS && matmul.borrowed) {  // a kernel may fail although checked() accepted it
    library.choose_own(matmul, problem);
    if (!matmul.kernel.possible) return false;
    status = launch();
  }
  check(status, "the product");
  return true;
}

}  // namespace hexad::kernels::cuda
