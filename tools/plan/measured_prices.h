// Prices of operations on a measured cluster. The rules are documented in prices.h.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "framework/base/ordinal.h"
#include "tools/plan/prices.h"

namespace hexad::plan {

/// Prices computed from measured curves.
class MeasuredPrices {
 public:
  explicit MeasuredPrices(const Cluster& cluster);

  const Cluster& cluster() const { return cluster_; }

  bool has_products(base::Dtype dtype) const;
  bool has(CopyKind kind) const { return copies_[base::ordinal(kind)].has_value(); }
  bool has_links() const { return !links_.empty(); }
  bool has_link(Collective operation, const GroupPlace& place) const;

  /// Returns the highest measured rate of the element type, in FLOP/s, of Cluster::peaks and all products; 0 if neither
  /// was measured.
  double peak(base::Dtype dtype) const;

  /// Returns the seconds of a product without its extra bytes.
  double product(const Product& p) const;

  /// These functions return prices in seconds, like the functions of Prices with the same names.
  double attention(const Attention& a) const;
  double copy(CopyKind kind, double bytes) const { return copies_[base::ordinal(kind)]->seconds(bytes); }
  double collective(Collective operation, const GroupPlace& place, double bytes) const;

  /// True if products of one expert were measured.
  bool has_single_products(Element element) const;
  /// True if product() prices some pass of a measured product like another pass, because the pass was not measured.
  bool lacks_passes(Element element) const;

 private:
  struct Timed {
    MeasuredProduct of;
    double area;              // number of elements of one expert's weight
    schedule::TimeCurve one;  // seconds of one expert's product as a function of its rows
  };

  // Returns the nearest measured product of the element type; null if there is none. The kind (one or several experts)
  // decides first, then the size of the weight, then the pass.
  const Timed* nearest(Element element, GemmPass pass, double area, bool single) const;

  // Returns the best FLOP/s of products with the largest measured weight, over all numbers of rows. Considers only
  // products in `pass` if such products were measured, otherwise products in any pass. Returns 0 if no product was
  // measured.
  double best_rate(Element element, GemmPass pass) const;

  Cluster cluster_;
  std::vector<Timed> products_;
  std::vector<schedule::TimeCurve> links_;  // in the order of cluster_.links
  std::array<std::optional<schedule::TimeCurve>, enum_names(CopyKind{}).size()> copies_;
  std::array<std::array<double, enum_names(GemmPass{}).size()>, enum_names(Element{}).size()> rates_{};
};

}  // namespace hexad::plan
