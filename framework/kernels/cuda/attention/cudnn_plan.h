// Problems of cuDNN's fused attention, and the plans for them. Separate from the code that runs plans, so that plans
// can be made, and refused, without a card.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

struct cudnnContext;
struct CUstream_st;

namespace hexad::kernels::cuda {

/// Numbers of elements from token to token and from head to head of a tensor [tokens, heads, size] with contiguous
/// size.
struct HeadStrides {
  int64_t token = 0, head = 0;
  auto operator<=>(const HeadStrides&) const = default;
};

/// Parameters of a call on which a plan depends: bf16 of `sequences` times `positions` tokens. Each token sees its
/// whole sequence or, if there are documents, its document. If causal, it sees only tokens up to itself.
struct AttentionProblem {
  bool backward = false, causal = true, deterministic = false;
  int64_t sequences = 0, positions = 0;
  int64_t documents = 0;  // number in all sequences; 0: no documents
  int64_t heads = 0, key_heads = 0, size = 0;
  float scale = 1;
  HeadStrides q, k, v, out;
  HeadStrides dout = {}, dq = {}, dk = {}, dv = {};  // only for backward
  auto operator<=>(const AttentionProblem&) const = default;
};

/// Operands that a plan reads and writes. Statistics (f32) are max + ln(sum) of scaled scores. They are [tokens,
/// heads], as in AttentionKernels, but [sequences, heads, positions] for a backward without documents.
enum class AttentionOperand : int64_t { q = 1, k, v, out, stats, dout, dq, dk, dv, query_lengths, key_lengths };
/// Returns the operand's id. With documents, each of q to dv has offsets[documents + 1] (i64): the element at which
/// each document begins, and the end of all tokens. Lengths are i32 [documents].
constexpr int64_t id_of(AttentionOperand operand) { return static_cast<int64_t>(operand); }
constexpr int64_t id_of_offsets(AttentionOperand operand) { return 100 + id_of(operand); }
/// Addresses of operands by id.
using AttentionOperands = std::unordered_map<int64_t, void*>;

/// Handle of cuDNN on the current card.
class CudnnHandle {
 public:
  CudnnHandle();
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  /// False if the library does not work on this machine.
  bool works() const { return handle_ != nullptr; }
  cudnnContext* get() const { return handle_; }
  /// Returns the version, such as 92500.
  int64_t version() const;

 private:
  cudnnContext* handle_ = nullptr;
};

/// A card that need not exist: its properties in cuDNN's format (JSON), and its generation (for example 90).
struct DescribedCard {
  std::string properties;
  int generation;
};

class CudnnPlan {
 public:
  /// Maximum bytes of workspace of a plan. Only a deterministic backward needs more. For it, cuDNN before 9.25 keeps
  /// all B H S^2 gradients of scores in bf16 and is slower. That is 2.1 GB for 16 heads of 4 x 4096 tokens, also if
  /// these are four documents. A backward that is not deterministic gives different results in each run. With it,
  /// forward and backward take 2.06 ms; PyTorch's deterministic flash attention takes 5.2 ms.
  static constexpr int64_t most_workspace = int64_t{4} << 30;

  CudnnPlan(const AttentionProblem& problem, const CudnnHandle& handle);
  /// Makes a plan that cannot be executed.
  CudnnPlan(const AttentionProblem& problem, const DescribedCard& card);
  CudnnPlan(CudnnPlan&&) noexcept;
  ~CudnnPlan();

  /// Returns the reason why there is no plan; empty if there is one.
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
