// Combinations of several sources.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/data/source.h"

namespace hexad::data {

/// Draws sequences from several endless sources in fixed proportions. Each block of block_size sequences is divided
/// among the sources by weight, as exactly as integers permit. All blocks are divided in the same way. The source of
/// global sequence i and the index in this source are therefore computed from i alone. At any point, the number of
/// sequences drawn from a source differs from its exact share by less than the number of sources.
class MixtureSource final : public Source {
 public:
  static constexpr int64_t block_size = 1 << 16;

  struct Part {
    std::shared_ptr<const Source> source;
    double weight;  // positive; its share of the sum of weights is rounded to a multiple of 1 / block_size
  };
  struct Place {
    size_t part;
    int64_t index;  // index in the part
  };

  /// Throws Error(usage) if a weight is not positive and finite or rounds to zero. Throws std::logic_error unless all
  /// parts are endless and have the same context.
  explicit MixtureSource(std::vector<Part> parts);

  Place place(int64_t index) const;
  /// Returns how many of the first `sequences` sequences come from each part.
  std::vector<int64_t> drawn(int64_t sequences) const;

  int64_t context() const override { return parts_.front().source->context(); }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  struct Slot {
    uint32_t part;
    uint32_t rank;  // number of earlier slots of the block that belong to the same part
  };

  std::vector<Part> parts_;
  std::vector<int64_t> quotas_;  // number of slots of each part in a block
  std::vector<Slot> block_;
};

/// Concatenation of several finite sources, for the held-out texts of a mixture.
class ConcatenatedSource final : public Source {
 public:
  explicit ConcatenatedSource(std::vector<std::shared_ptr<const Source>> parts);

  int64_t context() const override { return parts_.front()->context(); }
  int64_t size() const override;
  int64_t epoch(int64_t) const override { return 0; }
  void fill(int64_t index, const Row& row) const override;

 private:
  std::vector<std::shared_ptr<const Source>> parts_;
};

}  // namespace hexad::data
