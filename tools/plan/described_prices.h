// Prices of operations on a described machine. The formulas are documented in prices.h.
#pragma once

#include <optional>

#include "tools/plan/efficiency.h"
#include "tools/plan/prices.h"

namespace hexad::plan {

/// Prices computed from a described machine.
class DescribedPrices {
 public:
  explicit DescribedPrices(const Machine& given);

  const Machine& machine() const { return m_; }
  /// True if the host of a rank computes its kernels, because the rank has no other device.
  bool computes_on_host() const { return m_.device == MachineDevice::cpu; }
  /// Returns the seconds for which an operation occupies the host.
  double operation() const { return *m_.operation; }
  /// Returns the peak rate for `dtype` in FLOP/s; 0 if the description does not give it.
  double known_peak(base::Dtype dtype) const;

  /// These functions return prices in seconds, like the functions of Prices with the same names.
  double product(const Product& p, double largest) const;
  double attention(const Attention& a) const;
  double memory_bound(double bytes, double kernels) const;
  double copy(CopyKind kind, double bytes) const;
  double collective(Collective operation, const GroupPlace& place, double bytes) const;

  /// Adds the described slowdowns that `rates` does not list yet. Omits speeds of 1 or more.
  void add_slowdowns(schedule::Rates& rates) const;

 private:
  // Distribution of a group over domains of the fast link: the number of its ranks, the number of its ranks in one
  // domain, and the number of its domains.
  struct Distribution {
    double ranks, inside, domains;
    double adapter;  // fraction of an adapter's bandwidth that each rank gets
  };

  Distribution distribution_of(const GroupPlace& place) const;
  double within(double bytes) const { return bytes > 0 ? bytes / (m_.inside->bandwidth * inside_->at(bytes)) : 0; }
  double outside(const Distribution& distribution, double bytes) const;
  double all_to_all(const Distribution& distribution, double bytes) const;
  double ring(const Distribution& distribution, double bytes) const;
  double ring_latency(const Distribution& distribution) const;
  double tree_latency(const Distribution& distribution) const;
  double in_memory(double bytes) const { return bytes > 0 ? bytes / (m_.memory_bandwidth * memory_.at(bytes)) : 0; }

  double peak(base::Dtype dtype) const;

  Machine m_;
  Efficiency dense_, grouped_, memory_;
  std::optional<Efficiency> inside_, network_;
};

}  // namespace hexad::plan
