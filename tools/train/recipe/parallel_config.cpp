#include "tools/train/recipe/parallel_config.h"

#include "framework/base/error.h"

namespace hexad::train {

std::string describe(const ParallelConfig& c, int64_t world) {
  std::string text = mesh::Layout(c.sizes(), static_cast<int>(world)).to_string();
  if (c.sp) text += ", sp";
  if (c.cp > 1)
    for (const auto& [kind, name] : enum_names(c.cp_kind))
      if (kind == c.cp_kind) text += base::cat(", cp ", name);
  if (c.zero > 0) text += base::cat(", zero ", c.zero);
  return text;
}

}  // namespace hexad::train
