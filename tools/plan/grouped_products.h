// Time of grouped GEMMs by the number of experts in a group, from the measurements of a profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "framework/schedule/rates.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Measured times of a forward product of several experts that one kernel call computes: EPS-MoE's G(m, E).
class GroupedProducts {
 public:
  /// Makes an object without measurements.
  GroupedProducts() = default;
  /// Takes the forward products of `element` and of the shape whose weight is nearest to `weight` elements, as a ratio.
  /// Of equally near shapes, takes the first one. Times are scaled to `weight`. A measurement with one kernel call for
  /// each expert (`dense_products`) gives the time of a group of one expert, unless such a group was measured.
  GroupedProducts(const Cluster& cluster, Element element, double weight);

  /// Adds the curve of a group of `experts` experts: seconds by total number of rows.
  void add(int64_t experts, schedule::TimeCurve curve) { curves_.insert_or_assign(experts, std::move(curve)); }

  /// Returns the number of group sizes that were measured. seconds() needs two.
  size_t sizes() const { return curves_.size(); }
  /// Returns the seconds of a product of `experts` experts with `rows` rows in total. At equal rows per expert, the
  /// time is linear in the number of experts between measured group sizes. Above the largest size, the line continues,
  /// but never falls. Below the smallest size, the time is proportional to the number of experts. Throws
  /// std::logic_error if fewer than two group sizes were measured.
  double seconds(double rows, double experts) const;

 private:
  std::map<int64_t, schedule::TimeCurve> curves_;
};

}  // namespace hexad::plan
