// Placement of parameters in flat memory, and the part of it that each replica owns. Only arithmetic.
#pragma once

#include <unordered_map>
#include <vector>

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::dp {

using autograd::Parameter;
using autograd::ParameterSet;
using base::Dtype;
using base::FlatRange;
using device::Device;
using tensor::Tensor;

/// State of which each replica keeps only a share (Rajbhandari et al. 2020): nothing, optimizer states, also gradients,
/// also weights.
enum class Zero : uint8_t { nothing, states, gradients, weights };

/// Parameters of one dtype whose gradients are summed over the same ranks. They are stored one after the other in a
/// flat memory that is cut into equal pieces, one per rank of the group.
struct Bucket {
  struct Entry {
    Parameter* parameter;
    int64_t begin;  // offset of its first element in the bucket
  };
  const comm::ProcessGroup* group;
  Dtype dtype;      // dtype of the weights
  Zero zero;        // `nothing` in a group of one
  bool two_stages;  // true if the group has ranks of two pipeline stages, which are never at the same point of their
                    // work
  size_t unit;
  std::vector<Entry> entries;
  int64_t elements = 0;  // including gaps between parameters and at the end

  int64_t piece_size() const { return elements / group->size(); }
  /// Returns the piece of this rank.
  FlatRange piece() const { return {group->rank() * piece_size(), (group->rank() + 1) * piece_size()}; }
  /// Returns the part of the parameter that is in this rank's piece.
  FlatRange share(const Entry& e) const;
  /// Returns the parameter, in its shape, as a view of `memory`, which holds the whole bucket.
  static Tensor view(const Tensor& memory, const Entry& e);
  /// Returns this rank's share of the parameter, flat, as a view of `memory`, which holds only this rank's piece.
  Tensor share_of_piece(const Tensor& memory, const Entry& e) const;
};

/// Division of parameters into buckets. It depends only on data that all ranks of a stage share, so ranks of one group
/// have the same buckets. Parameters are taken in reverse order of creation, which is about the order in which backward
/// finishes them. Buckets that were filled at the same time make a unit: about one layer, whose weights are needed
/// together.
class BucketPlan {
 public:
  struct Options {
    Zero zero = Zero::nothing;
    int64_t unit_bytes = 1 << 22;  // a unit is closed once its gradients reach this size
  };
  /// Assigns every parameter's shares. If a group has ranks of two stages (a tied embedding), weights stay whole: to
  /// gather them, both stages would have to use them at the same time.
  BucketPlan(ParameterSet& parameters, const mesh::Mesh& mesh, const Options& options);
  BucketPlan(const BucketPlan&) = delete;
  BucketPlan& operator=(const BucketPlan&) = delete;

  const std::vector<Bucket>& buckets() const { return buckets_; }
  Device device() const { return device_; }

  struct Place {
    size_t bucket, entry;
  };
  /// Returns the bucket and entry of a parameter. Throws std::logic_error for a parameter of another model.
  Place place(const Parameter& parameter) const;

 private:
  void shard(const mesh::Mesh& mesh);

  Device device_;
  std::vector<Bucket> buckets_;
  std::unordered_map<const Parameter*, Place> places_;
};

}  // namespace hexad::dp
