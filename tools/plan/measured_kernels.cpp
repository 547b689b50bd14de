#include "tools/plan/measured_kernels.h"

#include <array>
#include <tuple>
#include <utility>

#include "framework/base/error.h"
#include "tools/plan/curves/measured_curve.h"

namespace hexad::plan {
namespace {

// Classes of all kernel families except pointwise families.
constexpr auto classes_of_families = std::to_array<std::pair<std::string_view, KernelClass>>({
    {"swiglu", KernelClass::activation},
    {"clamped_swiglu", KernelClass::activation},
    {"gelu", KernelClass::gelu},
    {"row_gate", KernelClass::activation},
    {"attention", KernelClass::activation},    // combines results of blocks of keys by exponentials
    {"sink", KernelClass::activation},         // attention sinks, which also compute exponentials
    {"causal_conv", KernelClass::activation},  // with SiLU
    {"delta_gate", KernelClass::activation},   // gates of delta nets
    {"rotary", KernelClass::activation},
    {"rms_norm", KernelClass::norm},
    {"split_norm", KernelClass::norm},
    {"layer_norm", KernelClass::norm},
    {"permute", KernelClass::permute},
    {"wire", KernelClass::permute},
    {"embedding", KernelClass::permute},
    {"router", KernelClass::router},
    {"router_loss", KernelClass::router},
    {"sparse_mixer", KernelClass::router},
    {"expert_choice", KernelClass::router},
    {"capacity", KernelClass::router},
    {"slots", KernelClass::router},
    {"index", KernelClass::router},
    {"cross_entropy", KernelClass::loss},
    {"split_softmax", KernelClass::loss},
    {"optimizer", KernelClass::optimizer},
});

// Returns the class that replaces `of` in files of older programs that did not measure `of`; none if all programs
// measure `of`.
std::optional<KernelClass> similar_class(KernelClass of) {
  if (of == KernelClass::gelu) return KernelClass::activation;
  if (of == KernelClass::reduction) return KernelClass::norm;
  return {};
}

}  // namespace

double attention_flops(AttentionPass pass, double width, double positions) {
  return (pass == AttentionPass::forward ? 2 : 5) * width * positions * positions;
}

std::optional<Element> element_of(base::Dtype dtype) {
  if (dtype == base::Dtype::f32) return Element::f32;
  if (dtype == base::Dtype::bf16) return Element::bf16;
  return {};
}

KernelClass class_of(std::string_view family, std::string_view name) {
  if (name == "squared_norm") return KernelClass::reduction;  // reads gradients, without an update
  for (const auto& [known, of] : classes_of_families)
    if (known == family) return of;
  return KernelClass::pointwise;
}

bool works_in_bf16(KernelClass of) { return of != KernelClass::router && of != KernelClass::loss; }

KernelCurves::KernelCurves(const Cluster& cluster) {
  for (const MeasuredAttention& a : cluster.attention) {
    std::vector<Curve::Point> times;
    for (const auto& [positions, seconds] : a.points.points) times.push_back({positions, seconds / positions});
    attention_.push_back({a, times.size() > 1 ? Curve(times) : Curve(times.front().y)});
  }
  for (const MeasuredKernels& k : cluster.kernels) kernels_.push_back({k.of, k.element, steady_curve(k.points)});
}

std::optional<double> KernelCurves::attention(const Attention& a) const {
  const AttentionTime* best = nullptr;
  std::tuple<double, bool, double> least;
  for (const AttentionTime& curve : attention_) {
    if (curve.of.element != element_of(a.dtype)) continue;
    const std::tuple cost{octaves(static_cast<double>(curve.of.head_size), a.head_dim), curve.of.pass != a.pass,
                          octaves(static_cast<double>(curve.of.heads), a.heads)};
    if (!best || cost < least) best = &curve, least = cost;
  }
  if (!best) return {};
  const auto width = static_cast<double>(best->of.heads * best->of.head_size);
  const double measured = a.sequence * seconds(best->seconds_of_position, a.sequence);
  return a.flops / attention_flops(best->of.pass, width, a.sequence) * measured;
}

const KernelCurves::KernelTime* KernelCurves::find(KernelClass of, std::optional<Element> element) const {
  const KernelTime* other = nullptr;
  for (const KernelTime& curve : kernels_) {
    if (curve.of != of) continue;
    if (curve.element == element) return &curve;
    if (!other) other = &curve;
  }
  if (const auto similar = similar_class(of); !other && similar) return find(*similar, element);
  return other;
}

std::optional<double> KernelCurves::kernel(KernelClass of, base::Dtype dtype, double bytes) const {
  const KernelTime* curve = find(of, element_of(dtype));
  if (!curve) return {};
  return curve->seconds.seconds(bytes);
}

bool KernelCurves::has_attention(Element element) const {
  for (const AttentionTime& curve : attention_)
    if (curve.of.element == element) return true;
  return false;
}

std::vector<std::string> KernelCurves::assumptions() const {
  std::vector<std::string> texts;
  if (!has_kernels()) return texts;
  for (const auto& [of, name] : enum_names(KernelClass{})) {
    const KernelTime* f32 = find(of, Element::f32);
    const KernelTime* bf16 = find(of, Element::bf16);
    if (f32 && f32->of != of)
      texts.push_back(
          base::cat("kernels of class ", name, ": priced like kernels of class ", base::enum_name(f32->of)));
    else if (!f32)
      texts.push_back(base::cat("kernels of class ", name, ": priced like a copy of half their bytes"));
    else if (f32 == bf16 && works_in_bf16(of))
      texts.push_back(base::cat("kernels of class ", name, ": the same bytes/s in f32 and bf16"));
  }
  return texts;
}

}  // namespace hexad::plan
