#include "parallel/dp/whole_matrices.h"

#include "framework/kernels/kernel_table.h"

namespace hexad::dp {

using namespace base;
namespace {

// Returns matrix m of `stack` [count, rows, columns].
Tensor matrix(const Tensor& stack, int64_t m) { return kernels::expert_matrix(stack, m); }

}  // namespace

WholeMatrices::WholeMatrices(const Parameter& parameter, const mesh::Mesh* mesh)
    : mesh_(mesh),
      placement_(parameter.placement()),
      device_(parameter.device()),
      dtype_(accumulator_dtype(parameter.dtype())),
      rows_(0),
      columns_(0),
      owned_(parameter.owned()),
      shares_(parameter.owns_share_only()) {
  const Shape& global = parameter.global_shape();
  const int rank = global.rank();
  require(rank >= 2, "[matrices] ", parameter.name(), " is ", global, "; expected at least two dimensions");
  const Placement::Region region = parameter.region();
  for (int d = 0; d < rank - 2; ++d) matrices_ *= region.size[d];
  rows_ = global[rank - 2], columns_ = global[rank - 1];
  local_rows_ = {region.begin[rank - 2], region.begin[rank - 2] + region.size[rank - 2]};
  local_columns_ = {region.begin[rank - 1], region.begin[rank - 1] + region.size[rank - 1]};
  for (const Shard& s : placement_.shards) {
    if (s.dim < rank - 2 || s.parts == 1) continue;
    require(!cut_, "[matrices] ", parameter.name(), " is cut along two axes; expected at most one axis");
    cut_ = s;
  }
  require(mesh_ != nullptr || (!cut_ && !shares_), "[matrices] ", parameter.name(),
          " is divided among ranks, but there is no mesh to gather it; expected a mesh");
  if (shares_) mesh_->reducers(placement_).connect(comm::Use::sums, device_);
  if (cut_) (*mesh_)[cut_->axis].connect(comm::Use::sums, device_);
}

bool WholeMatrices::owns_part_of(int64_t m) const {
  const int64_t size = local_rows_.size() * local_columns_.size();
  return !intersection(owned_, FlatRange{m * size, (m + 1) * size}).empty();
}

Tensor WholeMatrices::part_of(const Tensor& whole, int64_t m) const {
  return matrix(whole, m)
      .slice(0, local_rows_.begin, local_rows_.end)
      .slice(1, local_columns_.begin, local_columns_.end);
}

Tensor WholeMatrices::empty_local() const {
  return Tensor::empty({matrices_, local_rows_.size(), local_columns_.size()}, dtype_, device_);
}

Tensor WholeMatrices::gather(const Tensor& owned, Stream& stream) const {
  const auto& k = kernels::kernels(device_).pointwise;
  const Tensor local = empty_local();
  if (shares_) k.fill(stream, local, 0.0);
  if (owned.defined()) k.copy(stream, local.reshape({-1}).slice(0, owned_.begin, owned_.end), owned);
  if (shares_) stream.wait(mesh_->reducers(placement_).all_reduce(local, comm::Reduce::sum, stream));
  if (!cut_) return local;

  const Tensor whole = Tensor::empty({matrices_, rows_, columns_}, dtype_, device_);
  k.fill(stream, whole, 0.0);
  const mesh::ProcessGroup& group = (*mesh_)[cut_->axis];
  // Several ranks may have the same piece. Only the first of them contributes the piece.
  const int first = (cut_->index * group.size() + cut_->parts - 1) / cut_->parts;
  if (group.rank() == first)
    for (int64_t m = 0; m < matrices_; ++m) k.copy(stream, part_of(whole, m), matrix(local, m));
  stream.wait(group.all_reduce(whole, comm::Reduce::sum, stream));
  return whole;
}

Tensor WholeMatrices::owned(const Tensor& whole, Stream& stream) const {
  Tensor local = whole;
  if (cut_) {
    local = empty_local();
    for (int64_t m = 0; m < matrices_; ++m)
      kernels::kernels(device_).pointwise.copy(stream, matrix(local, m), part_of(whole, m));
  }
  return local.reshape({-1}).slice(0, owned_.begin, owned_.end);
}

}  // namespace hexad::dp
