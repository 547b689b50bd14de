// Division of the sequences of a mixture among its datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hexad::data {

/// Divides each block of block_size sequences among the parts of a mixture by weight, as exactly as integers permit.
/// All blocks are divided in the same way. At any point, the sequences drawn from a part deviate from the part's exact
/// share by less than the number of parts.
class MixtureDivision {
 public:
  static constexpr int64_t block_size = 1 << 16;

  struct Place {
    size_t part;
    int64_t index;  // number of earlier sequences of the same part
  };

  /// Divides by `weights`, which must not be empty. The share of each weight is rounded to a multiple of 1 /
  /// block_size. Throws Error(usage) if a weight is not positive and finite or rounds to zero.
  explicit MixtureDivision(const std::vector<double>& weights);

  size_t parts() const { return quotas_.size(); }
  /// Returns the part from which sequence `index` comes, and the index of the sequence in this part. `index` must be at
  /// least 0.
  Place place(int64_t index) const;
  /// Returns how many of the first `sequences` sequences come from each part.
  std::vector<int64_t> drawn(int64_t sequences) const;
  /// Returns the share of a part: (sequences of the part in a block) / block_size.
  double share(size_t part) const { return static_cast<double>(quotas_[part]) / static_cast<double>(block_size); }
  /// True if both divisions have the same shares, and therefore divide all sequences in the same way.
  bool operator==(const MixtureDivision& other) const { return quotas_ == other.quotas_; }

 private:
  struct Slot {
    uint32_t part;
    uint32_t rank;  // number of earlier slots of the block that belong to the same part
  };

  std::vector<int64_t> quotas_;  // number of slots of each part in a block
  std::vector<Slot> block_;
};

/// Point of a run from which the present weights of a mixture apply.
struct MixtureStart {
  int64_t sequence = 0;          // index of the first sequence that the present weights divide
  std::vector<int64_t> drawn{};  // number of earlier sequences of each part; empty: 0 of each

  /// Returns how many of the first `sequences` sequences of the run come from each part. Throws std::logic_error if
  /// `sequences` is less than `sequence`, or if `drawn` has another number of parts than the division.
  std::vector<int64_t> drawn_until(int64_t sequences, const MixtureDivision& division) const;

  bool operator==(const MixtureStart&) const = default;
};

}  // namespace hexad::data
