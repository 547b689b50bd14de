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
  /// Takes the forward products of `element` and of one shape: the first shape whose number of weight elements is
  /// nearest to `weight`, as a ratio. Times are scaled to `weight`. The time of a group of one expert comes from
  /// `dense_products` (one kernel call for each expert) if this group was not measured.
  GroupedProducts(const Cluster& cluster, Element element, double weight);

  /// Sets the curve of a group of `experts` experts: seconds by total number of rows.
  void add(int64_t experts, schedule::TimeCurve curve) { curves_.insert_or_assign(experts, std::move(curve)); }

  /// Returns the number of group sizes that were measured. seconds() needs at least two.
  size_t sizes() const { return curves_.size(); }
  /// Returns the seconds of a product of `experts` experts with `rows` rows in total. Between measured group sizes, the
  /// time is linear in the number of experts if the number of rows per expert is fixed. Above the largest size, the
  /// line continues, but never falls. Below the smallest size, the time is proportional to the number of experts.
  /// Throws std::logic_error if fewer than two group sizes were measured.
  double seconds(double rows, double experts) const;

 private:
  std::map<int64_t, schedule::TimeCurve> curves_;
};

}  // namespace hexad::plan
