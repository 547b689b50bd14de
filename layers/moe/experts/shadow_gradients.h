// Gradients of the weights of shadows in one backward pass.
#pragma once

#include <vector>

#include "framework/autograd/parameter.h"
#include "layers/base/moe_names.h"
#include "parallel/ep/hot_experts.h"

namespace hexad::moe {

/// Gradients [H, ...] of the weights of this rank's shadows, one for each trainable parameter of the experts. Kernels
/// add the contributions of this rank's rows. Then sum() sums the gradients over all ep ranks, and add_own() adds the
/// sums of this rank's own experts to the parameters' gradients.
class ShadowGradients {
 public:
  /// `parameters` are the parameters of the layer's experts, and must outlive this object.
  ShadowGradients(const std::vector<autograd::Parameter*>& parameters, ep::HotExperts hot);

  /// True if there are gradients, because at least one parameter is trainable.
  bool any() const { return !entries_.empty(); }
  /// Returns the bytes of all gradients.
  int64_t bytes() const;
  /// Returns the memory for the next contribution to the gradient of trainable parameter `p`, and its write mode.
  autograd::GradientTarget next_target(const autograd::Parameter& p);
  /// Returns the memory for the next contribution to the gradient of trainable parameter `p`. The memory is zeroed on
  /// `stream` before the first contribution. The caller must therefore add every contribution. Later calls of
  /// next_target() return Write::add.
  Tensor to_add(const autograd::Parameter& p, Stream& stream);

  /// Sums the gradients over the ep group `ranks`, in the order of the ranks. Gradients without contributions are zero.
  /// Collective. `stream` waits for the sums.
  void sum(Stream& stream, const comm::ProcessGroup& ranks);
  /// Adds the sums of this rank's own experts to the gradients of the parameters. `rank` is this rank in the ep group.
  /// Call it on the compute lane, after sum().
  void add_own(Stream& stream, int rank) const;

 private:
  struct Entry {
    autograd::Parameter* parameter;
    Tensor gradient{};  // allocated at first use
    bool written = false;
  };
  Entry& entry_of(const autograd::Parameter& p);

  const ep::HotExperts hot_;
  std::vector<Entry> entries_;
};

}  // namespace hexad::moe
