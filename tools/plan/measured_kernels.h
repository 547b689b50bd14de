// Seconds of attention and of small kernels, interpolated from the measured curves of a cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/dtype.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// One pass of an attention kernel.
struct Attention {
  base::Dtype dtype = base::Dtype::bf16;
  AttentionPass pass = AttentionPass::forward;
  // FLOPs of unmasked scores: half of all scores if causal; backward has 2.5 times the FLOPs of forward.
  double flops = 0;
  double sequence = 0, head_dim = 128;
  double heads = 1;  // total number of heads of all sequences
  // Share of `flops` that is not padding. Values are padded if they have smaller heads than keys. GPUs compute the
  // padding, and CPUs do not.
  double without_padding = 1;
};

/// Returns the FLOPs of causal attention in one sequence. `width` is the number of heads times the head size. Includes
/// the scores that backward computes again, like Attention::flops.
double attention_flops(AttentionPass pass, double width, double positions);

/// Returns the element type of measurements that apply to `dtype`; none if `dtype` is neither f32 nor bf16.
std::optional<Element> element_of(base::Dtype dtype);

/// Returns the class of kernel `name` of `family` (KernelTable). Kernels of unknown families are pointwise.
KernelClass class_of(std::string_view family, std::string_view name);

/// True if kernels of the class work in f32 or bf16, depending on the recipe: train.precision sets the element type of
/// activations, optim.moment_dtype the type of updates, and optim.grad_dtype the type of gradients. Other kernels are
/// measured only in f32.
bool works_in_bf16(KernelClass of);

/// Prices attention and small kernels by measured curves.
class KernelCurves {
 public:
  explicit KernelCurves(const Cluster& cluster);

  /// Returns the seconds of attention; none if attention was not measured for its dtype. Chooses the curve by these
  /// criteria, in order of importance: nearest head size (as a ratio), same pass, nearest number of heads. The curve
  /// gives the seconds per position as a function of the number of positions. These seconds grow with this number,
  /// because each position attends to all previous positions. The result is scaled by the ratio of the FLOPs. The curve
  /// is linear between points and above the last point, and constant below the first point.
  std::optional<double> attention(const Attention& attention) const;

  /// Returns the seconds of a kernel that reads and writes `bytes` bytes; none if no kernel of its class was measured.
  /// Uses the curve of another element type if the class was not measured with this element type. Files of older
  /// programs lack gelu and reduction. Kernels of these classes then have the curves of activation and norm.
  std::optional<double> kernel(KernelClass of, base::Dtype dtype, double bytes) const;

  bool has_attention(Element element) const;
  /// True if any class was measured.
  bool has_kernels() const { return !kernels_.empty(); }

  /// Returns one text for each class that was not measured. Also returns a text for each class that works_in_bf16(),
  /// but that was measured with only one of f32 and bf16. Returns no texts if no class was measured.
  std::vector<std::string> assumptions() const;

 private:
  struct AttentionTime {
    MeasuredAttention of;
    Curve seconds_of_position;  // seconds per position as a function of the number of positions
  };
  struct KernelTime {
    KernelClass of;
    Element element;
    schedule::TimeCurve seconds;
  };
  const KernelTime* find(KernelClass of, std::optional<Element> element) const;

  std::vector<AttentionTime> attention_;
  std::vector<KernelTime> kernels_;
};

}  // namespace hexad::plan
