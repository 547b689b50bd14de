#include "tools/train/recipe/parallel_config.h"

#include "framework/base/enum_names.h"
#include "framework/base/error.h"

namespace hexad::train {

std::string describe(const ParallelConfig& c, int64_t world) {
  std::string text = mesh::Layout(c.sizes(), static_cast<int>(world)).to_string();
  if (c.sp) text += ", sp";
  if (c.cp > 1) text += base::cat(", cp ", base::enum_name(c.cp_kind));
  if (c.zero > 0) text += base::cat(", zero ", c.zero);
  return text;
}

}  // namespace hexad::train
