// Runs attention with cuDNN: selects the calls for which cuDNN has a plan, and prepares their operands.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/attention/attention_calls.h"
#include "framework/kernels/cuda/attention/cudnn_plan.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

using Id = AttentionOperand;

/// cuDNN's handle and plans. The card owns one object of this type.
struct Cudnn {
  CudnnHandle handle;
  std::map<AttentionProblem, CudnnPlan> plans;  // also contains refused problems, so that no problem is tried twice

  /// Returns the plan for `problem`; null if cuDNN has no plan for it. The first call for a problem makes its plan.
  const CudnnPlan* plan_for(const AttentionProblem& problem) {
    auto at = plans.find(problem);
    if (at == plans.end()) at = plans.emplace(problem, CudnnPlan(problem, handle)).first;
    return at->second.refused().empty() ? &at->second : nullptr;
  }
  /// Returns the number of documents of the plan for a batch of `documents` documents. From version 9.25 on, the number
  /// is rounded up to a power of two, so that one plan serves many batches. The additional documents have no tokens.
  /// Older versions of cuDNN do not support empty documents, so each number of documents needs a plan.
  int64_t planned_documents(int64_t documents) const {
    return documents > 0 && handle.version() >= 92500
               ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(documents)))
               : documents;
  }
};

/// Maximum number of documents for which cuDNN is used. For each document, cuDNN visits all tiles of a sequence,
/// although most of these tiles are empty.
constexpr int64_t max_documents = 1024;

/// True if the call may suit cuDNN. The call must be bf16, with more than one query per sequence and as many keys as
/// queries. Two masks are allowed: at most max_documents documents, if their number is known
/// (AttentionShape::documents), and a causal mask aligned at the top left. Rows must begin at multiples of 16 bytes,
/// the size of a head must be a multiple of 8, and the scale must be finite. cuDNN checks the remaining conditions.
template <class... Tensors>
bool may_suit(const AttentionShape& shape, const Tensor& first, const Tensor& last, const Tensor& q,
              const Tensors&... others) {
  const auto on_16_bytes = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(device_raw(t)) % 16 == 0 && t.strides()[0] % 8 == 0 && t.strides()[1] % 8 == 0;
  };
  const bool everybody = !first.defined() && !last.defined();
  const bool counted = first.defined() && last.defined() && shape.documents > 0 && shape.documents <= max_documents;
  return q.dtype() == Dtype::bf16 && (everybody || counted) && shape.queries == shape.keys && shape.queries > 1 &&
         shape.query_offset == 0 && shape.window == 0 && std::isfinite(shape.scale) && q.dim(2) % 8 == 0 &&
         on_16_bytes(q) && (on_16_bytes(others) && ...);
}

/// True if the deterministic backward pass of documents is expected to need too much workspace (see CudnnPlan). The
/// estimate assumes that every document has all positions. Without this check, a plan would be made, and
/// refused, for each number of documents.
bool asks_too_much(const AttentionProblem& p) {
  return p.deterministic && p.documents * p.heads * p.positions * p.positions > CudnnPlan::max_workspace / 2;
}

HeadStrides strides_of(const Tensor& t) { return {t.strides()[0], t.strides()[1]}; }

template <class Call>
AttentionProblem problem_of(const Call& c, const Cudnn& cudnn) {
  return {.causal = c.shape.causal,
          .sequences = c.shape.sequences,
          .positions = c.shape.queries,
          .documents = c.first.defined() ? cudnn.planned_documents(c.shape.documents) : 0,
          .heads = c.q.dim(1),
          .key_heads = c.k.dim(1),
          .size = c.q.dim(2),
          .scale = static_cast<float>(c.shape.scale),
          .q = strides_of(c.q),
          .k = strides_of(c.k),
          .v = strides_of(c.v),
          .out = strides_of(c.out)};
}

struct Given {
  Id id;
  const Tensor& tensor;
};

void execute(Stream& stream, const Cudnn& cudnn, const CudnnPlan& plan, const AttentionProblem& problem,
             const DocumentBounds& bounds, const std::vector<Given>& all) {
  const Device device = all.front().tensor.device();
  AttentionOperands operands;
  for (const Given& g : all) operands[id_of(g.id)] = device_raw(g.tensor);
  Tensor lengths, offsets;
  if (problem.documents > 0) {
    std::vector<int64_t> distances;
    for (const Given& g : all) distances.push_back(g.id == Id::stats ? problem.heads : g.tensor.strides()[0]);
    lengths = Tensor::empty({problem.documents}, Dtype::i32, device);
    offsets = Tensor::empty({std::ssize(all), problem.documents + 1}, Dtype::i64, device);
    find_documents(stream, lengths, offsets, bounds, problem.positions, distances);
    operands[id_of(Id::query_lengths)] = operands[id_of(Id::key_lengths)] = device_raw(lengths);
    for (size_t i = 0; i < all.size(); ++i)
      operands[id_of_offsets(all[i].id)] = device_data<int64_t>(offsets) + static_cast<int64_t>(i) * offsets.dim(1);
  }
  const Tensor workspace = Tensor::empty({std::max<int64_t>(plan.workspace(), 1)}, Dtype::u8, device);
  const auto queue = device::cuda::cuda_stream(stream).handle();
  plan.execute(cudnn.handle, queue.get(), std::move(operands), device_raw(workspace));
}

}  // namespace

bool cudnn_attention(Stream& stream, const AttentionForward& c) {
  if (!may_suit(c.shape, c.first, c.last, c.q, c.k, c.v, c.out)) return false;
  auto& cudnn = device::cuda::cuda_stream(stream).card().shared<Cudnn>();
  if (!cudnn.handle.works()) return false;
  const AttentionProblem problem = problem_of(c, cudnn);
  const CudnnPlan* plan = cudnn.plan_for(problem);
  if (!plan) return false;
  execute(stream, cudnn, *plan, problem, {c.first, c.last},
          {{Id::q, c.q}, {Id::k, c.k}, {Id::v, c.v}, {Id::out, c.out}, {Id::stats, c.log_sum_exp}});
  return true;
}

bool cudnn_attention(Stream& stream, const AttentionBackward& c) {
  if (!may_suit(c.shape, c.first, c.last, c.q, c.k, c.v, c.out, c.dout, c.dq, c.dk, c.dv)) return false;
  auto& cudnn = device::cuda::cuda_stream(stream).card().shared<Cudnn>();
  if (!cudnn.handle.works()) return false;
  AttentionProblem problem = problem_of(c, cudnn);
  problem.backward = true, problem.deterministic = c.shape.deterministic;
  problem.dout = strides_of(c.dout), problem.dq = strides_of(c.dq);
  problem.dk = strides_of(c.dk), problem.dv = strides_of(c.dv);
  if (asks_too_much(problem)) return false;
  const CudnnPlan* plan = cudnn.plan_for(problem);
  if (!plan) return false;
  Tensor stats = c.log_sum_exp;
  if (problem.documents == 0) {
    stats = Tensor::empty({problem.sequences, problem.heads, problem.positions}, Dtype::f32, c.q.device());
    heads_first(stream, stats, c.log_sum_exp);
  }
  execute(stream, cudnn, *plan, problem, {c.first, c.last},
          {{Id::q, c.q},
           {Id::k, c.k},
           {Id::v, c.v},
           {Id::out, c.out},
           {Id::stats, stats},
           {Id::dout, c.dout},
           {Id::dq, c.dq},
           {Id::dk, c.dk},
           {Id::dv, c.dv}});
  return true;
}

}  // namespace hexad::kernels::cuda
