// Combinations of several sources.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/data/mixture_division.h"
#include "framework/data/source.h"

namespace hexad::data {

/// Draws sequences from several endless sources in the proportions of a MixtureDivision. The source of global sequence
/// i and the index in this source are computed from i, the weights and a MixtureStart alone. A source continues after
/// its earlier sequences if the weights of a run change.
class MixtureSource final : public Source {
 public:
  struct Part {
    std::shared_ptr<const Source> source;
    double weight;  // see MixtureDivision
  };
  using Place = MixtureDivision::Place;  // `index` is the index in the part

  /// Combines `parts`, whose weights apply to the sequences from start.sequence on. Throws Error(usage) like
  /// MixtureDivision. Throws std::logic_error if there are no parts, if a part is finite, or if the contexts of the
  /// parts differ. Also throws std::logic_error if start.drawn is not empty and does not have one number for each part.
  explicit MixtureSource(std::vector<Part> parts, MixtureStart start = {});

  /// Returns the part from which sequence `index` comes, and the index of the sequence in this part. Throws
  /// std::logic_error if `index` is below start().sequence.
  Place place(int64_t index) const;
  /// Returns how many of the first `sequences` sequences come from each part. Throws std::logic_error if `sequences` is
  /// below start().sequence.
  std::vector<int64_t> drawn(int64_t sequences) const { return start_.drawn_until(sequences, division_); }
  const MixtureDivision& division() const { return division_; }
  const MixtureStart& start() const { return start_; }

  int64_t context() const override { return parts_.front().source->context(); }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  std::vector<Part> parts_;
  MixtureDivision division_;
  MixtureStart start_;
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
