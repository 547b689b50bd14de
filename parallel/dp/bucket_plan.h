// Placement of parameters in flat buckets of memory, and the shard that each replica owns. Contains only arithmetic.
#pragma once

#include <unordered_map>
#include <vector>

#include "framework/autograd/parameter.h"
#include "parallel/dp/dp_names.h"
#include "parallel/mesh/mesh.h"

namespace hexad::dp {

/// Level of ZeRO: the data of which each replica stores only a shard (Rajbhandari et al. 2020).
/// - nothing: each replica stores all data.
/// - states: optimizer states.
/// - gradients: optimizer states and gradients.
/// - weights: optimizer states, gradients and weights.
enum class Zero : uint8_t { nothing, states, gradients, weights };

/// Parameters of one dtype whose gradients are summed over the same ranks, all trainable or all frozen. They are stored
/// one after the other in flat memory. This memory is divided into equal pieces, one for each rank of the group.
struct Bucket {
  struct Entry {
    Parameter* parameter;
    int64_t begin;  // index of the parameter's first element in the bucket
  };
  const comm::ProcessGroup* group;
  Dtype dtype;      // dtype of the weights
  Zero zero;        // `nothing` if the group has only one rank, `nothing` or `weights` if the parameters are frozen.
                    // Never `weights` if two_stages is true
  bool two_stages;  // true if the group has ranks of two pipeline stages, which use the bucket at different times of a
                    // step
  bool trainable;   // false if the parameters are frozen: the bucket then has no gradients and no updates
  size_t unit;
  std::vector<Entry> entries;
  int64_t elements = 0;  // number of elements, including padding between parameters and at the end

  int64_t piece_size() const { return elements / group->size(); }
  /// Returns this rank's piece, as a range of elements of the bucket.
  FlatRange piece() const { return {group->rank() * piece_size(), (group->rank() + 1) * piece_size()}; }
  /// Returns the part of the parameter that is in this rank's piece, as a range of elements of the parameter.
  FlatRange share(const Entry& e) const;
  /// Returns the parameter, with its shape, as a view of `memory`, which contains the whole bucket.
  static Tensor view(const Tensor& memory, const Entry& e);
  /// Returns this rank's part of the parameter, flat, as a view of `memory`, which contains only this rank's piece.
  Tensor share_of_piece(const Tensor& memory, const Entry& e) const;
};

/// Returns the value of Options::unit_bytes that suits collectives over `ranks` ranks, which hold the same dense
/// weights. On CPUs, units have 4 MiB. On GPUs, units have 4 MiB for each rank, because a collective divides a bucket
/// by the number of its ranks. A rank's 4 MiB contain a million f32 gradients, as in Megatron-Core's
/// DistributedDataParallel. Units on GPUs have at least 32 MiB. They have at most 512 MiB, because two units are in
/// memory under Zero::weights.
int64_t suitable_unit_bytes(int ranks, bool on_gpus);

/// Division of the parameters into buckets. It depends only on data that is equal on all ranks of a stage. The ranks of
/// a group therefore have the same buckets. Parameters are taken in reverse order of creation, which is approximately
/// the order in which backward completes their gradients. Consecutive parameters form a unit (Options::unit_bytes),
/// whose weights are gathered together. A unit has one bucket for each combination of group, dtype, two_stages and
/// trainable.
class BucketPlan {
 public:
  struct Options {
    Zero zero = Zero::nothing;
    // A unit ends once it has at least this many bytes of gradients, averaged over the ranks. Frozen parameters count
    // as if they had gradients.
    int64_t unit_bytes = 1 << 22;
  };
  /// Assigns the shards of every parameter. The weights of a bucket are not sharded if its group has ranks of two
  /// stages (for a tied embedding). Both stages would have to gather these weights at the same time.
  BucketPlan(ParameterSet& parameters, const mesh::Mesh& mesh, const Options& options);
  BucketPlan(const BucketPlan&) = delete;
  BucketPlan& operator=(const BucketPlan&) = delete;

  const std::vector<Bucket>& buckets() const { return buckets_; }
  Device device() const { return device_; }

  struct Place {
    size_t bucket, entry;
  };
  /// Returns the bucket and the entry of a parameter. Throws std::logic_error if the parameter belongs to another
  /// model.
  Place place(const Parameter& parameter) const;

 private:
  void shard(const mesh::Mesh& mesh);

  Device device_;
  std::vector<Bucket> buckets_;
  std::unordered_map<const Parameter*, Place> places_;
};

}  // namespace hexad::dp
