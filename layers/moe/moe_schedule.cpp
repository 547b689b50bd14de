#include "layers/moe/moe_schedule.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::moe {
namespace {

template <class E>
std::string_view name_of(E value) {
  const auto names = enum_names(value);
  return std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == value; })->second;
}

}  // namespace

std::string to_string(const MoeSchedule& s) {
  std::string out = base::cat("duplicates ", name_of(s.duplicates), ", overlap ", name_of(s.overlap), ", cut ",
                              name_of(s.cut), ", parts ", s.parts);
  if (s.spread) out += base::cat(", spread ", name_of(*s.spread));
  if (s.rows != ep::RowOf::slot) out += base::cat(", rows ", name_of(s.rows));
  if (s.restore != Restore::keep) out += base::cat(", restore ", name_of(s.restore));
  if (s.memory_limit) out += base::cat(", memory_limit ", *s.memory_limit);
  if (s.wire != kernels::WireFormat::model) out += base::cat(", wire ", name_of(s.wire));
  if (s.order != MoeSchedule{}.order) out += base::cat(", order ", s.order);
  if (s.compute_share != 1) out += base::cat(", compute_share ", s.compute_share);
  if (s.shared != SharedExperts::after) out += base::cat(", shared ", name_of(s.shared));
  return out;
}

}  // namespace hexad::moe
