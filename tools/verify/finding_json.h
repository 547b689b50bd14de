// Findings as JSON lists: [step, what, relative, detail, place]. An infinite difference is null.
#pragma once

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "tools/verify/tensor_comparison.h"

namespace hexad::verify {

inline nlohmann::json to_json(const Finding& f) {
  return {f.step, f.what, std::isfinite(f.relative) ? nlohmann::json(f.relative) : nlohmann::json(nullptr), f.detail,
          f.place};
}

inline Finding finding_from_json(const nlohmann::json& j) {
  return {j.at(0).get<int64_t>(), j.at(1).get<std::string>(),
          j.at(2).is_null() ? std::numeric_limits<double>::infinity() : j.at(2).get<double>(),
          j.at(3).get<std::string>(), j.at(4).get<int64_t>()};
}

}  // namespace hexad::verify
