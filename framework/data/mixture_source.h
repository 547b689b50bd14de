// Several sources as one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/data/source.h"

namespace hexad::data {

/// Sequences drawn from several endless sources in fixed proportions. A block of block_size sequences is shared out to
/// the sources by weight, as evenly as integers allow, and every block is shared out alike: which source serves global
/// sequence i, and as its how-manieth, is arithmetic on i. After any number of sequences a source is off its share by
/// less than the number of sources.
class MixtureSource final : public Source {
 public:
  static constexpr int64_t block_size = 1 << 16;

  struct Part {
    std::shared_ptr<const Source> source;
    double weight;  // > 0; only the ratios matter, rounded to 1 / block_size of the sum
  };
  struct Place {
    size_t part;
    int64_t index;  // within that part
  };

  /// Throws Error(usage) when a weight is not positive and finite or rounds to nothing. Parts must be endless and of
  /// one context (std::logic_error).
  explicit MixtureSource(std::vector<Part> parts);

  Place place(int64_t index) const;

  int64_t context() const override { return parts_.front().source->context(); }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  struct Slot {
    uint32_t part;
    uint32_t rank;  // how many slots before this one in the block are the same part's
  };

  std::vector<Part> parts_;
  std::vector<int64_t> quotas_;  // slots of a block per part
  std::vector<Slot> block_;
};

/// Finite sources one after the other: the held-out texts of a mixture.
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
