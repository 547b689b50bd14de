// Whole matrices of parameters that are divided among ranks, for optimizers that need more than single elements.
#pragma once

#include <optional>

#include "framework/autograd/parameter.h"
#include "parallel/dp/dp_names.h"
#include "parallel/mesh/mesh.h"

namespace hexad::dp {

/// Matrices of a parameter. They are the last two dimensions of the global tensor; the earlier dimensions are indices
/// of matrices, such as experts and stacked layers. A rank gathers the matrices of which its local weights contain a
/// part. Results do not depend on the layout, because a gather only adds values to zeros.
class WholeMatrices {
 public:
  /// Describes the matrices of a parameter with at least two dimensions, whose shards must have been assigned
  /// (BucketPlan). Connects the ranks that gather() needs, and is therefore collective like gather(). `mesh` must
  /// outlive this object. Throws std::logic_error if both rows and columns are divided, or if `mesh` is null although a
  /// matrix is divided among ranks.
  WholeMatrices(const Parameter& parameter, const mesh::Mesh* mesh);

  int64_t count() const { return matrices_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  Device device() const { return device_; }
  /// True if this rank owns an element of matrix `m`, with 0 <= m < count().
  bool owns_part_of(int64_t m) const;

  /// Returns all values of the matrices, [count, rows, columns], in the accumulator dtype. `owned` has the values of
  /// the elements that this rank owns, flat; undefined if the rank owns no elements. Collective over the ranks that
  /// have parts of these matrices.
  Tensor gather(const Tensor& owned, Stream& stream) const;
  /// Returns the elements of `whole` that this rank owns, flat. Not collective.
  Tensor owned(const Tensor& whole, Stream& stream) const;

 private:
  /// Returns this rank's rectangle of matrix `m` of `whole`.
  Tensor part_of(const Tensor& whole, int64_t m) const;
  Tensor empty_local() const;

  const mesh::Mesh* mesh_;
  base::Placement placement_;
  std::optional<base::Shard> cut_{};  // division of rows or columns among ranks; nullopt: not divided
  Device device_;
  Dtype dtype_;
  int64_t matrices_ = 1, rows_, columns_;
  FlatRange local_rows_, local_columns_;  // this rank's rectangle
  FlatRange owned_;
  bool shares_;  // true if each rank owns only a share of its local weights
};

}  // namespace hexad::dp
