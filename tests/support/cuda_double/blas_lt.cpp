// cuBLASLt on the CPU. Descriptors are interpreted exactly, in column-major order, and calls that the library would
// reject are rejected. Supports products of two dense matrices of bf16, f32 or f64, without batches or epilogues.
#include "tests/support/cuda_double/blas_lt.h"

#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/cuda_double/kernels/launch.h"
#include "tests/support/cuda_double/launches.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

std::mutex workspaces_mutex;
std::map<const std::byte*, size_t>& workspaces() {
  static std::map<const std::byte*, size_t> in_use;
  return in_use;
}

std::atomic<int> multiprocessors_of_last{0};
std::atomic<int64_t> heuristics{0};
LoadedKernels loaded;  // keys: Algorithm::number, because each choice may be another kernel
std::atomic<bool> refuses_checks{false}, checks_mislead{false};

/// Kinds of the library's opaque structs. A struct of zeros, which was not initialised, has the kind `none`.
enum class Kind : uint32_t { none, layout, product, preference, algorithm };

struct Layout {
  Kind kind;
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading;
};
struct Product {
  Kind kind;
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a, b;
  int32_t multiprocessors;
};
enum Operand { a_operand, b_operand, c_operand, d_operand, operands };
struct Preference {
  Kind kind;
  uint32_t alignment[operands];
  uint64_t max_workspace;
};
struct Algorithm {
  Kind kind;
  uint32_t alignment[operands];
  uint32_t splits;  // 1 if the sum is split into two parts, otherwise 0
  uint64_t number;  // number of the call that chose the algorithm
};

template <class T, class Opaque>
void put(Opaque* to, const T& value) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  *to = {};
  std::memcpy(to, &value, sizeof value);
}
/// Returns the contents of an opaque struct. Throws std::logic_error if the struct was not initialised as a T.
template <class T, class Opaque>
T get(const Opaque* from, Kind kind) {
  T value{};
  if (from) std::memcpy(&value, from, sizeof value);
  if (value.kind != kind)
    throw std::logic_error("[double of cublasLt] a descriptor was not initialised, or is of another type");
  return value;
}

/// Problem D = alpha op(A) op(B) + beta C, in the library's column-major order.
struct Problem {
  Product product;
  Layout a, b, c, d;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return product.a == CUBLAS_OP_N ? a.columns : a.rows; }
};

size_t size_of(cudaDataType type) { return type == CUDA_R_16BF ? 2 : type == CUDA_R_32F ? 4 : 8; }

bool holds(const Layout& l) {
  return l.rows > 0 && l.columns > 0 && l.leading >= static_cast<int64_t>(l.rows) &&
         (l.type == CUDA_R_16BF || l.type == CUDA_R_32F || l.type == CUDA_R_64F);
}

cublasStatus_t state_of(const Problem& p) {
  for (const Layout& l : {p.a, p.b, p.c, p.d})
    if (!holds(l)) return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t a_rows = p.product.a == CUBLAS_OP_N ? p.a.rows : p.a.columns,
                 b_rows = p.product.b == CUBLAS_OP_N ? p.b.rows : p.b.columns,
                 b_columns = p.product.b == CUBLAS_OP_N ? p.b.columns : p.b.rows;
  if (a_rows != p.m() || b_columns != p.n() || b_rows != p.k() || p.c.rows != p.m() || p.c.columns != p.n())
    return CUBLAS_STATUS_INVALID_VALUE;
  const cudaDataType in = p.a.type, out = p.d.type;
  const bool wide = in == CUDA_R_64F;
  const bool known = p.product.compute == (wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F) &&
                     p.product.scale == (wide ? CUDA_R_64F : CUDA_R_32F) && p.b.type == in && p.c.type == out &&
                     (out == in || (in == CUDA_R_16BF && out == CUDA_R_32F));
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/// True if the double has a kernel for the operands: columns must begin at multiples of the element size, and of 4
/// bytes.
bool has_kernel(const Problem& p, const uint32_t (&alignment)[operands]) {
  const Layout* layouts[] = {&p.a, &p.b, &p.c, &p.d};
  for (int o = 0; o < operands; ++o) {
    const size_t size = size_of(layouts[o]->type), least = std::max<size_t>(size, 4);
    if (alignment[o] % least != 0 || static_cast<size_t>(layouts[o]->leading) * size % least != 0) return false;
  }
  return true;
}

constexpr uint64_t workspace_alignment = 256, deep = 256;  // a sum of at least `deep` terms may be split

uint64_t bytes_of_sums(const Problem& p) { return p.m() * p.n() * size_of(p.product.scale); }
uint64_t workspace_of(const Algorithm& a, const Problem& p) { return a.splits ? bytes_of_sums(p) : 0; }

/// Sizes for which an algorithm was chosen or checked. Products of other sizes are refused.
class Suited {
 public:
  void add(const Algorithm& a, const Problem& p) {
    const std::lock_guard lock(mutex_);
    sizes_.insert({a.number, p.m(), p.n(), p.k()});
  }
  bool has(const Algorithm& a, const Problem& p) {
    const std::lock_guard lock(mutex_);
    return sizes_.contains({a.number, p.m(), p.n(), p.k()});
  }

 private:
  std::mutex mutex_;
  std::set<std::array<uint64_t, 4>> sizes_;
};
Suited& suited() {
  static Suited all;
  return all;
}

template <class A>
A number(const void* p, cudaDataType type, size_t i) {
  if (type == CUDA_R_16BF) return static_cast<A>(__bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]));
  if (type == CUDA_R_32F) return static_cast<A>(static_cast<const float*>(p)[i]);
  return static_cast<A>(static_cast<const double*>(p)[i]);
}
template <class A>
void put_number(void* p, cudaDataType type, size_t i, A x) {
  if (type == CUDA_R_16BF) {
    static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16_rn(static_cast<float>(x));
  } else if (type == CUDA_R_32F) {
    static_cast<float*>(p)[i] = static_cast<float>(x);
  } else {
    static_cast<double*>(p)[i] = static_cast<double>(x);
  }
}

/// Returns op(matrix), column by column without gaps.
template <class A>
std::vector<A> dense(const void* data, const Layout& l, bool transposed) {
  const size_t rows = transposed ? l.columns : l.rows, columns = transposed ? l.rows : l.columns;
  const size_t leading = l.leading;
  std::vector<A> out(rows * columns);
  for (size_t c = 0; c < columns; ++c)
    for (size_t r = 0; r < rows; ++r)
      out[c * rows + r] = number<A>(data, l.type, transposed ? c + r * leading : r + c * leading);
  return out;
}

struct Call {
  Problem problem;
  const void *a, *b, *c;
  void* d;
  std::byte* workspace;  // null if no workspace is needed
  uint64_t workspace_bytes;
  double alpha, beta;
};

/// Adds the terms [begin, end) to sums[m, n], block by block.
template <class A>
void add_terms(A* sums, const std::vector<A>& a, const std::vector<A>& b, size_t m, size_t n, size_t k, size_t begin,
               size_t end) {
  constexpr size_t block = 64;
  std::vector<A> part(m);
  for (size_t j = 0; j < n; ++j)
    for (size_t first = begin; first < end; first += block) {
      std::fill(part.begin(), part.end(), A(0));
      for (size_t t = first; t < std::min(end, first + block); ++t) {
        const A right = b[j * k + t];
        for (size_t i = 0; i < m; ++i) part[i] += a[t * m + i] * right;
      }
      for (size_t i = 0; i < m; ++i) sums[j * m + i] += part[i];
    }
}

template <class A>
void multiply(const Call& call) {
  const Problem& p = call.problem;
  const size_t m = p.m(), n = p.n(), k = p.k();
  const std::vector<A> a = dense<A>(call.a, p.a, p.product.a != CUBLAS_OP_N),
                       b = dense<A>(call.b, p.b, p.product.b != CUBLAS_OP_N);
  std::vector<A> sums(m * n);
  if (call.workspace) {
    // The workspace holds the sum of the first half of the terms. Its content after the product is undefined.
    A* const first = reinterpret_cast<A*>(call.workspace);
    std::fill_n(first, m * n, A(0));
    add_terms(first, a, b, m, n, k, 0, k / 2);
    std::this_thread::yield();
    add_terms(sums.data(), a, b, m, n, k, k / 2, k);
    for (size_t i = 0; i < m * n; ++i) sums[i] += first[i];
    std::memset(call.workspace, 0xff, call.workspace_bytes);  // NaN in every type
  } else {
    add_terms(sums.data(), a, b, m, n, k, 0, k);
  }
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < m; ++i) {
      A result = static_cast<A>(call.alpha) * sums[j * m + i];
      if (call.beta != 0)  // otherwise C is not read
        result += static_cast<A>(call.beta) * number<A>(call.c, p.c.type, i + j * static_cast<size_t>(p.c.leading));
      put_number(call.d, p.d.type, i + j * static_cast<size_t>(p.d.leading), result);
    }
}

int64_t bytes_of(const Layout& l) {
  return static_cast<int64_t>(size_of(l.type)) *
         (static_cast<int64_t>(l.columns - 1) * l.leading + static_cast<int64_t>(l.rows));
}

void run(const Call& call) {
  const Problem& p = call.problem;
  for (const auto& [name, memory, bytes] :
       {std::tuple{"A", call.a, bytes_of(p.a)},
        {"B", call.b, bytes_of(p.b)},
        {"D", static_cast<const void*>(call.d), bytes_of(p.d)},
        {"the workspace", static_cast<const void*>(call.workspace), static_cast<int64_t>(call.workspace_bytes)}})
    if (memory && bytes > 0 && !reaches(memory, bytes))
      throw std::runtime_error(std::string("[double of cublasLt] ") + name +
                               " is not memory that the device can access");
  const WorkspaceInUse mark(call.workspace, call.workspace_bytes);
  p.a.type == CUDA_R_64F ? multiply<double>(call) : multiply<float>(call);
}

}  // namespace

int64_t heuristic_calls() { return heuristics; }

ChecksRefused::ChecksRefused() { refuses_checks = true; }
ChecksRefused::~ChecksRefused() { refuses_checks = false; }

ChecksMislead::ChecksMislead() { checks_mislead = true; }
ChecksMislead::~ChecksMislead() { checks_mislead = false; }

int last_multiprocessors() { return multiprocessors_of_last; }

WorkspaceInUse::WorkspaceInUse(const void* begin, size_t bytes)
    : begin_(bytes ? static_cast<const std::byte*>(begin) : nullptr) {
  if (!begin_) return;
  const std::lock_guard lock(workspaces_mutex);
  for (const auto& [other, size] : workspaces())
    if (other < begin_ + bytes && begin_ < other + size) {
      begin_ = nullptr;
      throw std::runtime_error("[double of cublasLt] a product's workspace is in use by another stream");
    }
  workspaces()[begin_] = bytes;
}

WorkspaceInUse::~WorkspaceInUse() {
  if (!begin_) return;
  const std::lock_guard lock(workspaces_mutex);
  workspaces().erase(begin_);
}

}  // namespace hexad::cuda_double

using namespace hexad::cuda_double;

struct cublasLtContext {
  int unused = 0;
};

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality is not supported";
    default:
      return "an error";
  }
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t to, size_t, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  put(to, Product{Kind::product, compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, 0});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto product = get<Product>(to, Kind::product);
  if (attribute == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET) {  // affects only the speed of a card
    if (bytes != sizeof product.multiprocessors) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&product.multiprocessors, value, sizeof product.multiprocessors);
    put(to, product);
    return product.multiprocessors >= 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }
  cublasOperation_t operation{};
  if (bytes != sizeof operation) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&operation, value, sizeof operation);
  if (operation != CUBLAS_OP_N && operation != CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) {
    product.a = operation;
  } else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) {
    product.b = operation;
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  put(to, product);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t to, size_t, cudaDataType type, uint64_t rows,
                                                 uint64_t columns, int64_t leading) {
  put(to, Layout{Kind::layout, type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t to, size_t) {
  constexpr uint32_t best = 256;  // the library's default
  put(to, Preference{Kind::preference, {best, best, best, best}, 0});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  auto preference = get<Preference>(to, Kind::preference);
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, sizeof field);
    put(to, preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  uint32_t scheme = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference.max_workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:  // the double sums in the compute type
      return set(scheme);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference.alignment[a_operand]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference.alignment[b_operand]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference.alignment[c_operand]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference.alignment[d_operand]);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wanted, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  const int64_t number = ++heuristics;
  const Problem problem{get<Product>(product, Kind::product), get<Layout>(a, Kind::layout),
                        get<Layout>(b, Kind::layout), get<Layout>(c, Kind::layout), get<Layout>(d, Kind::layout)};
  const auto preference = get<Preference>(wanted, Kind::preference);
  if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (const cublasStatus_t state = state_of(problem); state != CUBLAS_STATUS_SUCCESS) return state;
  if (!has_kernel(problem, preference.alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool splits = problem.k() >= deep && bytes_of_sums(problem) <= preference.max_workspace;
  Algorithm algorithm{
      .kind = Kind::algorithm, .alignment = {}, .splits = splits ? 1u : 0u, .number = static_cast<uint64_t>(number)};
  suited().add(algorithm, problem);
  std::copy(std::begin(preference.alignment), std::end(preference.alignment), algorithm.alignment);
  results[0] = {};
  put(&results[0].algo, algorithm);
  results[0].workspaceSize = workspace_of(algorithm, problem);
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* chosen, cublasLtMatmulHeuristicResult_t* result) {
  const Problem problem{get<Product>(product, Kind::product), get<Layout>(a, Kind::layout),
                        get<Layout>(b, Kind::layout), get<Layout>(c, Kind::layout), get<Layout>(d, Kind::layout)};
  const auto algorithm = get<Algorithm>(chosen, Kind::algorithm);
  if (const cublasStatus_t state = state_of(problem); state != CUBLAS_STATUS_SUCCESS) return state;
  if (refuses_checks || !has_kernel(problem, algorithm.alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!checks_mislead) suited().add(algorithm, problem);
  *result = {};
  result->algo = *chosen;
  result->workspaceSize = workspace_of(algorithm, problem);
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Problem problem{get<Product>(product, Kind::product), get<Layout>(a_layout, Kind::layout),
                        get<Layout>(b_layout, Kind::layout), get<Layout>(c_layout, Kind::layout),
                        get<Layout>(d_layout, Kind::layout)};
  const auto algorithm = get<Algorithm>(chosen, Kind::algorithm);
  if (const cublasStatus_t state = state_of(problem); state != CUBLAS_STATUS_SUCCESS) return state;
  if (!suited().has(algorithm, problem)) return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t needed = workspace_of(algorithm, problem);
  if (!alpha || !beta || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
  if (c == d && problem.c.leading != problem.d.leading) return CUBLAS_STATUS_INVALID_VALUE;
  const void* addresses[] = {a, b, c, d};
  for (int o = 0; o < operands; ++o)
    if (reinterpret_cast<uintptr_t>(addresses[o]) % algorithm.alignment[o] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (needed > 0 &&
      (!workspace || workspace_bytes < needed || reinterpret_cast<uintptr_t>(workspace) % workspace_alignment != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  multiprocessors_of_last = problem.product.multiprocessors;
  const bool wide = problem.product.scale == CUDA_R_64F;
  const auto scalar = [&](const void* p) {
    return wide ? *static_cast<const double*>(p) : static_cast<double>(*static_cast<const float*>(p));
  };
  loaded.load(algorithm.number, device_of(stream));
  count_launch(__func__);
  enqueue(stream, [call = Call{.problem = problem,
                               .a = a,
                               .b = b,
                               .c = c,
                               .d = d,
                               .workspace = needed ? static_cast<std::byte*>(workspace) : nullptr,
                               .workspace_bytes = needed,
                               .alpha = scalar(alpha),
                               .beta = scalar(beta)}] { run(call); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
