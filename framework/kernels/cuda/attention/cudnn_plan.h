// Problems of cuDNN's fused attention, and plans for these problems. This code is separate from cudnn.cpp, because
// plans can be made, and refused, without a card.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

struct cudnnContext;
struct CUstream_st;

namespace hexad::kernels::cuda {

/// Strides, in elements, between the tokens and between the heads of a tensor [tokens, heads, size] whose last
/// dimension is contiguous.
struct HeadStrides {
  int64_t token = 0, head = 0;
  auto operator<=>(const HeadStrides&) const = default;
};

/// Parameters of a call that determine its plan, for bf16 tensors of `sequences` times `positions` tokens. A token sees
/// its whole sequence or, if there are documents, its document. If `causal` is true, a token sees only itself and
/// earlier tokens.
struct AttentionProblem {
  bool backward = false, causal = true, deterministic = false;
  int64_t sequences = 0, positions = 0;
  int64_t documents = 0;  // number of documents in all sequences; 0: no documents
  int64_t heads = 0, key_heads = 0, size = 0;
  float scale = 1;
  HeadStrides q, k, v, out;
  HeadStrides dout = {}, dq = {}, dk = {}, dv = {};  // used only in backward
  auto operator<=>(const AttentionProblem&) const = default;
};

/// Operands that a plan reads and writes. The statistics (f32) are max + ln(sum) of the scaled scores. Their shape is
/// [tokens, heads], as in AttentionKernels, or [sequences, heads, positions] in a backward pass without documents.
enum class AttentionOperand : int64_t { q = 1, k, v, out, stats, dout, dq, dk, dv, query_lengths, key_lengths };
/// Ids of an operand and of its offsets. With documents, each of the operands q to dv has offsets[documents + 1] (i64).
/// The offsets are the indices of the elements at which the documents begin, and of the end of the last document. The
/// lengths of documents are i32 [documents].
constexpr int64_t id_of(AttentionOperand operand) { return static_cast<int64_t>(operand); }
constexpr int64_t id_of_offsets(AttentionOperand operand) { return 100 + id_of(operand); }
/// Addresses of the operands, by id.
using AttentionOperands = std::unordered_map<int64_t, void*>;

/// cuDNN's handle for the current card.
class CudnnHandle {
 public:
  CudnnHandle();
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  /// True if cuDNN works on this machine.
  bool works() const { return handle_ != nullptr; }
  cudnnContext* get() const { return handle_; }
  /// Returns cuDNN's version, for example 92500.
  int64_t version() const;

 private:
  cudnnContext* handle_ = nullptr;
};

/// Description of a card that need not be present. It consists of the card's properties in cuDNN's format (JSON) and
/// its generation (for example 90).
struct DescribedCard {
  std::string properties;
  int generation;
};

class CudnnPlan {
 public:
  /// Maximum bytes of workspace of a plan. Only a deterministic backward pass may need more. Before version 9.25, this
  /// pass of cuDNN is slow and stores all B * H * S^2 gradients of scores in bf16. For 16 heads and 4 x 4096 tokens,
  /// the gradients take 2.1 GB, even if each sequence is one document. For comparison, forward and backward together
  /// take 2.06 ms without determinism, and 5.2 ms with PyTorch's deterministic flash attention.
  static constexpr int64_t max_workspace = int64_t{4} << 30;

  CudnnPlan(const AttentionProblem& problem, const CudnnHandle& handle);
  /// Makes a plan for a card that need not be present. The plan cannot be executed.
  CudnnPlan(const AttentionProblem& problem, const DescribedCard& card);
  CudnnPlan(CudnnPlan&&) noexcept;
  ~CudnnPlan();

  /// Returns the reason why there is no plan; empty if there is a plan.
  const std::string& refused() const { return refused_; }
  int64_t workspace() const { return workspace_; }
  void execute(const CudnnHandle& handle, CUstream_st* stream, AttentionOperands operands, void* workspace) const;

 private:
  struct Made;
  std::unique_ptr<Made> made_;
  std::string refused_;
  int64_t workspace_ = 0;
};

}  // namespace hexad::kernels::cuda
