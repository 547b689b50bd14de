#include "tools/train/recipe/parallel_config.h"

#include <limits>

#include "framework/base/enum_names.h"
#include "framework/base/error.h"

namespace hexad::train {

std::optional<mesh::Layout> ParallelConfig::smallest_layout() const {
  const double product = static_cast<double>(pp) * static_cast<double>(cp) * static_cast<double>(tp) *
                         static_cast<double>(ep) * static_cast<double>(etp.value_or(tp));
  if (product > std::numeric_limits<int>::max()) return {};
  return mesh::Layout(sizes(), static_cast<int>(fewest_ranks()));
}

// Uses the smallest layout. More replicas multiply the distances between ranks along tp and along etp by the same
// factor, so the result does not change.
bool ParallelConfig::etp_across_tp() const {
  if (!order || tp % etp.value_or(tp) != 0) return false;
  try {
    const std::optional<mesh::Layout> layout = smallest_layout();
    return layout && !layout->etp_inside_tp();
  } catch (const mesh::IllegalLayout&) {
    return false;
  }
}

std::string describe(const ParallelConfig& c, int64_t world) {
  std::string text = mesh::Layout(c.sizes(), static_cast<int>(world)).to_string();
  if (c.sp) text += ", sp";
  if (c.cp > 1) text += base::cat(", cp ", base::enum_name(c.cp_kind));
  if (c.zero > 0) text += base::cat(", zero ", c.zero);
  return text;
}

}  // namespace hexad::train
