#include "tools/train/checkpoint/parameter_reader.h"

#include <cstring>
#include <vector>

#include "framework/io/finite.h"
#include "framework/tensor/host_read.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;

namespace {

// Reads a region of a stacked parameter from an older checkpoint, which stores the stacked parts as separate tensors.
void read_stacked(io::Checkpoint& checkpoint, const Parameter& p, io::Kind kind, const io::Region& region,
                  const Tensor& target) {
  const Stack& stack = p.spec().stack;
  const Device host = target.device().host();
  const io::Region inside{without(region.begin, stack.dim), without(region.size, stack.dim)};
  Tensor all;
  for (int64_t i = 0; i < region.size[stack.dim]; ++i) {
    const std::string& name = stack.names[region.begin[stack.dim] + i];
    require_shape(checkpoint, name, kind, without(p.global_shape(), stack.dim));
    const Tensor part = read_finite(checkpoint, {name, kind}, inside, host);
    if (!all.defined()) all = Tensor::empty(region.size, part.dtype(), host);
    require(part.dtype() == all.dtype(), "[checkpoint] ", name, " is ", part.dtype(),
            ", but other tensors of the stacked parameter ", p.name(), " are ", all.dtype(),
            "; expected the same dtype for all of these tensors");
    Shape size = region.size;
    size[stack.dim] = 1;
    const size_t width = size_of(part.dtype());
    char* to = static_cast<char*>(all.raw()) + static_cast<size_t>(i * all.strides()[stack.dim]) * width;
    io::for_each_run(size, all.strides(), part.reshape(size).strides(), [&](int64_t there, int64_t here, int64_t n) {
      std::memcpy(to + static_cast<size_t>(there) * width,
                  static_cast<const char*>(part.raw()) + static_cast<size_t>(here) * width,
                  static_cast<size_t>(n) * width);
    });
  }
  copy_from_host(target, all);
}

}  // namespace

StoredAs stored_as(const optim::Optimizer::State& s) {
  const std::string& name = s.parameter->name();
  for (const io::Kind kind : {io::Kind::main, io::Kind::moment1, io::Kind::moment2})
    if (io::name_of(kind) == s.kind) return {name, kind};
  return {cat(name, "/", s.kind), io::Kind::state};
}

void copy_from_host(const Tensor& target, const Tensor& host) {
  const Device device = target.device();
  kernels::kernels(device).pointwise.copy(device.context().compute(), target,
                                          on_device(host, device, Category::temporary));
}

void require_shape(const io::Checkpoint& checkpoint, const std::string& name, io::Kind kind, const Shape& shape,
                   const std::string& remedy) {
  const Shape& stored = checkpoint.record(name, kind).shape;
  if (!(stored == shape))
    fail(ExitCode::usage, checkpoint.folder(), ": ", name, " is ", stored, " but the recipe's model has ", shape,
         remedy);
}

Tensor read_finite(io::Checkpoint& checkpoint, const StoredAs& stored, const io::Region& region, Device host) {
  Tensor t = checkpoint.read(stored.name, stored.kind, region, host, Category::temporary);
  io::require_finite(t, checkpoint.folder(), stored.name);
  return t;
}

void read_into(io::Checkpoint& checkpoint, const StoredAs& stored, const Shape& shape, const io::Region& region,
               const Tensor& target) {
  require_shape(checkpoint, stored.name, stored.kind, shape);
  copy_from_host(target, read_finite(checkpoint, stored, region, target.device().host()));
}

Shape without(const Shape& shape, int dim) {
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes.erase(sizes.begin() + dim);
  return Shape(sizes);
}

bool stored_apart(const io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored) {
  const std::vector<std::string>& before = p.spec().stack.names;
  return !before.empty() && !checkpoint.contains(stored.name, stored.kind) &&
         checkpoint.contains(before[0], stored.kind);
}

void read_owned(io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored, const Tensor& owned) {
  const bool stacked = stored_apart(checkpoint, p, stored);
  for_each_rectangle(p, owned, [&](const io::Region& region, const Tensor& part) {
    if (stacked)
      read_stacked(checkpoint, p, stored.kind, region, part);
    else
      read_into(checkpoint, stored, p.global_shape(), region, part);
  });
}

void load_states(io::Checkpoint& checkpoint, ModelInstance& instance) {
  for (const auto& s : instance.states)
    if (checkpoint.contains(s.name, io::Kind::state))
      read_into(checkpoint, {s.name, io::Kind::state}, s.tensor.shape(), io::whole(s.tensor.shape()), s.tensor);
}

}  // namespace hexad::train
