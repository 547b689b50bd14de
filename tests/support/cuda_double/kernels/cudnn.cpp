// cuDNN's attention of documents on the CPU. Each document is gathered from its offsets, computed separately by the
// reference, and scattered. Calls without documents are rejected; Hexad's own kernels then compute them.
#include "framework/kernels/cuda/attention/cudnn_plan.h"

#include <stdexcept>

#include "framework/kernels/kernel_table.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/stream.h"

struct cudnnContext {};

namespace hexad::kernels::cuda {

using namespace base;
namespace {

using Id = AttentionOperand;

/// One execution of a plan.
class Execution {
 public:
  Execution(const AttentionProblem& problem, const AttentionOperands& operands) : p_(problem), operands_(operands) {}

  void run() {
    const int32_t* lengths = address<int32_t>(id_of(Id::query_lengths), p_.documents);
    if (address<int32_t>(id_of(Id::key_lengths), p_.documents) != lengths)
      throw std::runtime_error(
          "[double of cuDNN] the lengths of queries and keys are in different tensors; expected one tensor");
    for (int64_t d = 0, token = 0; d < p_.documents; token += lengths[d++])
      if (lengths[d] > 0) attend({d, token, lengths[d]});
  }

 private:
  struct Document {
    int64_t number, token, length;
  };
  struct Rows {
    Id id;
    int64_t heads;
    HeadStrides strides;
  };

  template <class T>
  T* address(int64_t id, int64_t elements) const {
    T* const p = static_cast<T*>(operands_.at(id));
    if (!cuda_double::reaches(p, elements * static_cast<int64_t>(sizeof(T))))
      throw std::runtime_error(
          base::cat("[double of cuDNN] operand ", id, " is not memory that the device can access"));
    return p;
  }
  /// Calls act(element of the operand, element of a tensor [length, heads, size]) for all of a document's elements.
  template <class T, class Act>
  void each(const Document& d, const Rows& rows, const Tensor& dense, const Act& act) const {
    const int64_t* offsets = address<int64_t>(id_of_offsets(rows.id), p_.documents + 1);
    if (offsets[d.number] != d.token * rows.strides.token ||
        offsets[d.number + 1] != (d.token + d.length) * rows.strides.token)
      throw std::runtime_error(base::cat("[double of cuDNN] operand ", id_of(rows.id), " of document ", d.number,
                                         " is from ", offsets[d.number], " to ", offsets[d.number + 1], "; expected ",
                                         d.token * rows.strides.token, " to ",
                                         (d.token + d.length) * rows.strides.token));
    const int64_t size = dense.dim(2);
    T* const first = address<T>(id_of(rows.id), 1) + offsets[d.number];
    for (int64_t t = 0; t < d.length; ++t)
      for (int64_t h = 0; h < rows.heads; ++h)
        for (int64_t c = 0; c < size; ++c)
          act(first[t * rows.strides.token + h * rows.strides.head + c],
              dense.data<T>()[(t * rows.heads + h) * size + c]);
  }
  template <class T = bf16>
  Tensor buffer(const Document& d, const Rows& rows, int64_t size) {
    return Tensor::empty({d.length, rows.heads, size}, dtype_of<T>, host_);
  }
  template <class T = bf16>
  Tensor gather(const Document& d, const Rows& rows, int64_t size) {
    const Tensor dense = buffer<T>(d, rows, size);
    each<T>(d, rows, dense, [](const T& from, T& to) { to = from; });
    return dense;
  }
  template <class T = bf16>
  void scatter(const Document& d, const Rows& rows, const Tensor& dense) const {
    each<T>(d, rows, dense, [](T& to, const T& from) { to = from; });
  }

  void attend(const Document& d) {
    const Rows q{Id::q, p_.heads, p_.q}, k{Id::k, p_.key_heads, p_.k}, v{Id::v, p_.key_heads, p_.v},
        out{Id::out, p_.heads, p_.out}, stats{Id::stats, p_.heads, {p_.heads, 1}};
    const AttentionShape shape{.sequences = 1,
                               .queries = d.length,
                               .keys = d.length,
                               .scale = static_cast<double>(p_.scale),
                               .causal = p_.causal};
    const Tensor queries = gather(d, q, p_.size), keys = gather(d, k, p_.size), values = gather(d, v, p_.size);
    const Tensor result = p_.backward ? gather(d, out, p_.size) : buffer(d, out, p_.size);
    const Tensor sums = p_.backward ? gather<float>(d, stats, 1) : buffer<float>(d, stats, 1);
    Stream& stream = host_.compute();
    if (!p_.backward) {
      reference_table.attention.forward(stream, result, sums, queries, keys, values, {}, {}, shape);
      scatter(d, out, result);
      scatter<float>(d, stats, sums);
      return;
    }
    const Rows dout{Id::dout, p_.heads, p_.dout}, dq{Id::dq, p_.heads, p_.dq}, dk{Id::dk, p_.key_heads, p_.dk},
        dv{Id::dv, p_.key_heads, p_.dv};
    const Tensor of_queries = buffer(d, dq, p_.size), of_keys = buffer(d, dk, p_.size),
                 of_values = buffer(d, dv, p_.size);
    reference_table.attention.backward(stream, {of_queries, of_keys, of_values}, gather(d, dout, p_.size),
                                       {result, sums, queries, keys, values}, shape);
    scatter(d, dq, of_queries);
    scatter(d, dk, of_keys);
    scatter(d, dv, of_values);
  }

  const AttentionProblem p_;
  const AttentionOperands operands_;
  device::DeviceContext host_;
};

}  // namespace

struct CudnnPlan::Made {
  AttentionProblem problem;
};

CudnnHandle::CudnnHandle() : handle_(new cudnnContext) {}
CudnnHandle::~CudnnHandle() { delete handle_; }
// Returns the first version that supports empty documents, so that tests include empty documents.
int64_t CudnnHandle::version() const { return 92500; }

// Waits for the device even if the double refuses the problem, because cuDNN has plans for more problems than the
// double. cuDNN compiles the kernels of a plan, so a plan loads new kernels even under CUDA_MODULE_LOADING=EAGER.
CudnnPlan::CudnnPlan(const AttentionProblem& problem, const CudnnHandle&) : made_(new Made{problem}) {
  if (cuda_double::require_device("a plan of cuDNN") != cudaSuccess) {
    refused_ = "the thread has chosen no device";
    return;
  }
  static_cast<void>(
      cuda_double::synchronize_device(cuda_double::current_device()));  // execute() reports a broken device
  if (problem.documents == 0) refused_ = "the double supports only attention within documents";
}
CudnnPlan::CudnnPlan(CudnnPlan&&) noexcept = default;
CudnnPlan::~CudnnPlan() = default;

void CudnnPlan::execute(const CudnnHandle&, CUstream_st* stream, AttentionOperands operands, void*) const {
  cuda_double::enqueue(stream, [p = made_->problem, all = std::move(operands)] { Execution(p, all).run(); });
}

}  // namespace hexad::kernels::cuda
