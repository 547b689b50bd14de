// Experts whose rows are not sent to other ranks, because every rank gets a copy of their weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/tensor/tensor.h"
#include "parallel/comm/process_group.h"

namespace hexad::ep {

using device::Stream;
using tensor::Tensor;

/// Hot experts. Every ep rank has a copy of each hot expert, called a shadow. A shadow computes the rows of its rank's
/// own tokens (FasterMoE, He et al. 2022). Let E be the number of experts, H the number of hot experts, and P the
/// number of ranks. A rank has its E / P own experts, followed by H shadows in the order of list(). The experts of all
/// ranks, including shadows, have numbers in this order: number n belongs to rank n / (E / P + H), rounded down.
/// Routing plans are made for numbers, so they treat shadows as additional experts of each rank. Without hot experts,
/// the number of an expert is its id.
class HotExperts {
 public:
  HotExperts() = default;
  /// Makes an object for the hot experts `hot`. They are ids among `experts` experts, which are divided among `ranks`
  /// ranks in equal blocks. Throws std::logic_error if an id is illegal or listed twice, or if equal blocks are
  /// impossible.
  HotExperts(std::vector<int64_t> hot, int64_t experts, int64_t ranks);

  bool any() const { return !hot_.empty(); }
  /// Returns the hot experts in ascending order.
  const std::vector<int64_t>& list() const { return hot_; }
  int64_t count() const { return static_cast<int64_t>(hot_.size()); }
  /// Returns the number of ranks; 0 without hot experts.
  int64_t ranks() const { return any() ? ranks_ : 0; }
  /// Returns the number of own experts of each rank; 0 without hot experts.
  int64_t own() const { return any() ? experts_ / ranks_ : 0; }
  /// Returns the total count of numbers: `experts` experts and all shadows.
  int64_t numbers(int64_t experts) const { return experts + ranks_ * count(); }
  /// Returns the number of `expert` for the slots of ep rank `rank`.
  int64_t number(int64_t expert, int64_t rank) const;
  /// Calls f(rank, begin, end) for each rank with hot experts. Entries [begin, end) of list() are experts of this rank.
  template <class F>
  void for_each_owner(const F& f) const {
    for (int64_t begin = 0, end = 0; begin < count(); begin = end) {
      const int64_t rank = hot_[begin] / own();
      while (end < count() && hot_[end] / own() == rank) ++end;
      f(static_cast<int>(rank), begin, end);
    }
  }

  /// Converts counts of slots by chunk and number to counts by chunk and expert.
  std::vector<int64_t> by_expert(std::vector<int64_t> of_numbers) const;
  /// Converts counts of slots by expert, on ep rank `rank`, to counts by number.
  std::vector<int64_t> by_number(std::span<const int64_t> of_experts, int64_t rank) const;

  bool operator==(const HotExperts&) const = default;

 private:
  std::vector<int64_t> hot_;
  int64_t experts_ = 0, ranks_ = 0;
};

/// Minimum load of a hot expert: the load must reach both limits.
struct HotRule {
  double least_load;       // minimum load, as a multiple of the mean load
  int64_t least_rows = 1;  // minimum load, in rows
};

/// Returns the hot experts: the experts whose load is at least the minimum load of `rule`. The number of hot experts is
/// at most the number of own experts of a rank. Shadows therefore need no more memory than a rank's own weights. Only
/// the experts with the highest loads are hot if too many experts have the minimum load. Among experts with equal
/// loads, the experts with the lowest ids are hot.
HotExperts hottest(std::span<const int64_t> loads, int64_t ranks, const HotRule& rule);

/// Returns the hot experts of the slots that all ranks of `sources` send. ids [T, K] (i32, on the host; -1: dropped)
/// are the slots of this rank. Collective over `sources`: the ranks exchange the loads of all experts, so all of them
/// get the same result. Throws std::logic_error if an id of this rank is illegal, and Error(communication) if the load
/// that another rank sent is illegal.
HotExperts agree_on_hot_experts(const Tensor& ids, int64_t experts, int64_t ep_ranks, const HotRule& rule,
                                const comm::ProcessGroup& sources);

/// Returns a copy of `ids`, on the same device, in which the number of each expert (HotExperts::number()) replaces its
/// id. ids [T, K] (i32) contains the experts of each token of the ep ranks `of`: first the rows of the first rank's
/// tokens, then the rows of the next rank's tokens. Each rank has the same number of tokens. An id of -1 does not
/// change. The host reads the ids, in the read "routing: ids".
Tensor renumbered(const Tensor& ids, const HotExperts& hot, std::span<const int> of, Stream& stream);

}  // namespace hexad::ep
