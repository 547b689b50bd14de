// Data parallelism: gradients are summed over the ranks that hold a copy, bucket by bucket, while backward goes on.
#pragma once

#include <unordered_map>
#include <vector>

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::dp {

using namespace autograd;

/// Owns the memory of all gradients, in contiguous buckets. A bucket holds parameters whose copies live on the same
/// ranks: derived from their placement, never from their names. Parameters are filled in reverse order of creation,
/// which is about the order in which backward finishes them.
class GradientBuckets {
 public:
  /// `bucket_bytes`: a bucket is closed once it is at least this large.
  GradientBuckets(ParameterSet& parameters, const mesh::Mesh& mesh, int64_t bucket_bytes);

  /// A parameter's gradient of the last micro-batch is complete. Starts its bucket's reduction when it was the last
  /// one.
  void ready(Parameter& parameter, Stream& stream);
  /// Waits for all reductions, starting those of buckets that never became ready (parameters nobody used: zeros, so
  /// that all ranks join), and prepares for the next step.
  void finish(Stream& stream);
  size_t count() const { return buckets_.size(); }

 private:
  struct Bucket {
    Tensor memory;
    const comm::ProcessGroup* group;
    std::vector<Parameter*> parameters;
    size_t waiting = 0;  // parameters that are not ready
    device::Event reduced;
  };
  void start_in_order(Stream& stream);
  void start(Bucket& bucket, Stream& stream);

  std::vector<Bucket> buckets_;
  std::unordered_map<Parameter*, size_t> bucket_of_;
  size_t next_ = 0;  // buckets are reduced in one order on all ranks
};

}  // namespace hexad::dp
