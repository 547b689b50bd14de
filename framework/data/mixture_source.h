// Several sources combined into one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/data/source.h"

namespace hexad::data {

/// Draws sequences from several endless sources in fixed proportions. Each block of block_size sequences is divided
/// among the sources by weight, as evenly as integers allow. All blocks are divided in the same way, so the source of
/// global sequence i, and the index within this source, are computed from i alone. At any point, the number of
/// sequences from a source differs from its share by less than the number of sources.
class MixtureSource final : public Source {
 public:
  static constexpr int64_t block_size = 1 << 16;

  struct Part {
    std::shared_ptr<const Source> source;
    double weight;  // > 0; only ratios matter, rounded to 1 / block_size of the sum
  };
  struct Place {
    size_t part;
    int64_t index;  // within that part
  };

  /// Throws Error(usage) if a weight is not positive and finite or rounds to zero. Throws std::logic_error unless all
  /// parts are endless and have the same context.
  explicit MixtureSource(std::vector<Part> parts);

  Place place(int64_t index) const;

  int64_t context() const override { return parts_.front().source->context(); }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  struct Slot {
    uint32_t part;
    uint32_t rank;  // number of earlier slots of the same part in the block
  };

  std::vector<Part> parts_;
  std::vector<int64_t> quotas_;  // slots of a block per part
  std::vector<Slot> block_;
};

/// Finite sources in sequence: the held-out texts of a mixture.
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
