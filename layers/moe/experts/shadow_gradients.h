// Gradients of the weights of shadows in one backward pass.
#pragma once

#include <vector>

#include "framework/autograd/parameter.h"
#include "layers/base/moe_names.h"
#include "parallel/ep/hot_experts.h"

namespace hexad::moe {

/// Gradients [H, ...] of the weights of this rank's H shadows, one for each trainable parameter of the experts. Kernels
/// add the contributions of this rank's rows. Then, call these functions in order:
///   - sum() computes the sums. Each ep rank receives the sums of an equal part of all elements.
///   - send_to_owners() sends these sums to the ranks of their experts.
///   - add_own() adds the sums of this rank's own experts to the parameters' gradients.
/// Only the experts' ranks need the sums, so these functions send about half the bytes of an all-reduce.
class ShadowGradients {
 public:
  /// Makes an object without contributions. `parameters` are the parameters of the layer's experts, and must outlive
  /// this object.
  ShadowGradients(const std::vector<autograd::Parameter*>& parameters, ep::HotExperts hot);

  /// True if there are gradients, which requires at least one trainable parameter.
  bool any() const { return !entries_.empty(); }
  /// Returns the bytes of one rank's part in sum().
  int64_t part_bytes() const;
  /// Bytes that a rank sends to other ranks and receives from them in send_to_owners(). `own`: bytes of the sums of the
  /// rank's own experts, including the sums that the rank does not receive from other ranks.
  struct Moved {
    int64_t sent = 0, received = 0, own = 0;
  };
  Moved moved(int rank) const;
  /// Returns the memory for the next contribution to the gradient of trainable parameter `p`, and its write mode.
  autograd::GradientTarget next_target(const autograd::Parameter& p);
  /// Returns the memory for the next contribution to the gradient of trainable parameter `p`. The memory is zeroed on
  /// `stream` before the first contribution. The caller must therefore add every contribution. Later calls of
  /// next_target() return Write::add.
  Tensor to_add(const autograd::Parameter& p, Stream& stream);

  /// Sums the gradients over the ep group `ranks`, in the order of the ranks. Gradients without contributions are zero.
  /// No contribution may be added later. Collective. `stream` waits for the sums.
  void sum(Stream& stream, const comm::ProcessGroup& ranks);
  /// Sends the sums to the ranks of their experts. Collective. `stream` waits for the sums of this rank's own experts.
  void send_to_owners(Stream& stream, const comm::ProcessGroup& ranks);
  /// Adds the sums of this rank's own experts to the gradients of the parameters. `rank` is this rank in the ep group.
  /// Call this function on the compute lane, after send_to_owners().
  void add_own(Stream& stream, int rank) const;

 private:
  struct Entry {
    autograd::Parameter* parameter;
    Tensor padded{};    // [P n]: the gradient and zeros, divided equally among the P ranks; allocated at first use
    Tensor gradient{};  // [H, ...], part of `padded`
    bool written = false;
    Tensor part{};  // [n]: sums of this rank's part of `padded`
    Tensor own{};   // sums of the gradients of this rank's hot experts
  };
  Entry& entry_of(const autograd::Parameter& p);
  int64_t elements_of_expert(const Entry& e) const;
  int64_t part_size(const Entry& e) const;
  comm::Splits splits_to_owners(const Entry& e, int rank) const;

  const ep::HotExperts hot_;
  std::vector<Entry> entries_;
};

}  // namespace hexad::moe
