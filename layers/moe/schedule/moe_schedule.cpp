#include "layers/moe/schedule/moe_schedule.h"

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

bool MoeSchedule::is_dense(std::span<const int64_t> offsets) const {
  if (products != Products::by_load) return products == Products::dense;
  int64_t busy = 0;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) busy += offsets[e] < offsets[e + 1] ? 1 : 0;
  return busy > 0 && offsets.back() - offsets.front() >= busy * dense_rows.value_or(usual_dense_rows);
}

std::string to_string(const MoeSchedule& s) {
  std::string out = base::cat("duplicates ", name_of(s.duplicates), ", overlap ", name_of(s.overlap), ", cut ",
                              name_of(s.cut), ", chunks ", s.chunks);
  if (s.esp_exchange) out += base::cat(", esp_exchange ", name_of(*s.esp_exchange));
  if (s.all_to_all != ep::AllToAll::direct) out += base::cat(", all_to_all ", name_of(s.all_to_all));
  if (s.rows != ep::RowOf::slot) out += base::cat(", rows ", name_of(s.rows));
  if (s.memory_reuse != ReuseStrategy::none) out += base::cat(", memory_reuse ", name_of(s.memory_reuse));
  if (s.memory_limit) out += base::cat(", memory_limit ", *s.memory_limit);
  if (s.wire != kernels::WireFormat::model) out += base::cat(", wire ", name_of(s.wire));
  if (s.order != MoeSchedule{}.order) out += base::cat(", order ", s.order);
  if (s.products != Products::grouped) out += base::cat(", products ", name_of(s.products));
  if (s.dense_rows) out += base::cat(", dense_rows ", *s.dense_rows);
  if (s.compute_share != 1) out += base::cat(", compute_share ", s.compute_share);
  if (s.shared != SharedExperts::after) out += base::cat(", shared ", name_of(s.shared));
  return out;
}

}  // namespace hexad::moe
