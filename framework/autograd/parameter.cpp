#include "framework/autograd/parameter.h"

#include <algorithm>
#include <array>

#include "framework/base/block_sizes.h"
#include "framework/base/name_pattern.h"
#include "framework/base/philox.h"
#include "framework/kernels/cpu/parallel.h"

namespace hexad::autograd {

using device::Category;
using namespace base;

namespace {

// Calls f(local offset, global index, count) for each maximal run of elements of `region` that is contiguous in the
// global tensor.
template <class F>
void for_each_run(const Shape& global, const Placement::Region& region, F&& f) {
  const int rank = global.rank();
  const Shape strides = global.row_major_strides();
  // A run extends over the last dimension. It also extends over an earlier dimension if the region contains all indices
  // of every later dimension.
  int dim = rank - 1;
  int64_t run = rank > 0 ? region.size[dim] : 1;
  for (; dim > 0 && region.size[dim] == global[dim]; --dim) run *= region.size[dim - 1];
  const int64_t runs = run > 0 ? region.size.numel() / run : 0;
  for (int64_t r = 0; r < runs; ++r) {
    int64_t rest = r, index = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t steps = d >= dim ? 1 : region.size[d];  // number of indices in dimension d at which runs begin
      index += (region.begin[d] + rest % steps) * strides[d];
      rest /= steps;
    }
    f(r * run, index, run);
  }
}

// Random source of a parameter's elements: one random stream for the parameter's name or, for stacked tensors, one
// random stream for the name of each tensor.
class Source {
 public:
  Source(uint64_t seed, const Parameter::Spec& spec) {
    const Stack& stack = spec.stack;
    if (stack.names.empty()) {
      parts_.emplace_back(seed, Purpose::init, spec.name);
      return;
    }
    for (const std::string& name : stack.names) parts_.emplace_back(seed, Purpose::init, name);
    inner_ = 1;
    for (int d = stack.dim + 1; d < spec.global_shape.rank(); ++d) inner_ *= spec.global_shape[d];
  }

  // Draws standard normal values for elements [begin, begin + values.size()) of the global tensor, in row-major order.
  void normals(std::span<float> values, int64_t begin) const {
    if (parts_.size() == 1) return parts_.front().normals(values, static_cast<uint64_t>(begin));
    const auto parts = static_cast<int64_t>(parts_.size());
    for (int64_t done = 0, count = std::ssize(values); done < count;) {
      const int64_t block = (begin + done) / inner_, at = (begin + done) % inner_,
                    n = std::min(count - done, inner_ - at);
      parts_[block % parts].normals(values.subspan(done, n), static_cast<uint64_t>(block / parts * inner_ + at));
      done += n;
    }
  }

 private:
  std::vector<Philox> parts_;
  int64_t inner_ = 0;  // number of adjacent elements that belong to one stacked tensor; 0: no stack
};

Parameter::Spec checked(Parameter::Spec spec) {
  for (const Shard& s : spec.placement.shards)
    require(s.parts > 0 && 0 <= s.index && s.index < s.parts && 0 <= s.dim && s.dim < spec.global_shape.rank(),
            "[parameter] ", spec.name, " ", spec.global_shape, ": the placement has piece ", s.index, " of ", s.parts,
            " of dimension ", s.dim, "; expected a piece in 0 .. ", s.parts - 1, " and a dimension in 0 .. ",
            spec.global_shape.rank() - 1);
  if (const Stack& s = spec.stack; !s.names.empty())
    require(0 <= s.dim && s.dim < spec.global_shape.rank() &&
                spec.global_shape[s.dim] == static_cast<int64_t>(s.names.size()),
            "[parameter] ", spec.name, " ", spec.global_shape, ": ", s.names.size(),
            " tensors are stacked in dimension ", s.dim, "; expected a dimension of size ", s.names.size());
  return spec;
}

}  // namespace

Tensor HeldWeight::on(Stream& stream) const {
  require(defined(), "[parameter] weights are read before Parameter::hold(); expected hold() first");
  stream.wait(gathered_.arrived);
  return weights_;
}

Parameter::Parameter(Spec spec, Device device)
    : spec_(checked(std::move(spec))), shape_(region().size), device_(device) {}

const Tensor& Parameter::local() {
  require(local_.defined() || weights_are_resident(), "[parameter] ", name(),
          ": its weights are not in memory, because they are not held; call hold() first");
  if (!local_.defined()) local_ = Tensor::empty(shape_, dtype(), device_, Category::parameter);
  return local_;
}

HeldWeight Parameter::hold(Stream& stream) {
  GatheredWeights gathered = weight_storage_ ? weight_storage_->gather_weights(*this, stream) : GatheredWeights{};
  return HeldWeight(local(), std::move(gathered));
}

void Parameter::initialize(uint64_t seed) {
  if (!device_.has_memory()) return void(local());
  const Source source(seed, spec_);
  // Values are rounded to f32 for every dtype. An f64 run therefore starts from exactly the weights of an f32 run.
  const auto value = static_cast<float>(spec_.init.value);
  with_dtype<float, bf16, double>("initialize", spec_.dtype, [&]<class T>() {
    using A = accumulator_t<T>;
    const bool on_host = device_.on_host();
    std::vector<T> drawn(
        on_host ? 0 : static_cast<size_t>(shape_.numel()));  // values to upload; empty if the host can write to local()
    T* out = on_host ? local().data<T>() : drawn.data();
    if (spec_.init.kind == Init::Kind::constant) {
      std::fill_n(out, shape_.numel(), T(static_cast<A>(value)));
      if (!on_host) local().upload(drawn.data());
      return;
    }
    const int64_t piece = block_sizes().drawn_elements;
    const auto draw = [&](int64_t local, int64_t global, int64_t count) {
      kernels::cpu::parallel_for((count + piece - 1) / piece, 16, [&](int64_t begin, int64_t end) {
        std::array<float, BlockSizes::max_drawn_elements> values;
        for (int64_t at = begin * piece; at < std::min(count, end * piece); at += piece) {
          const size_t n = std::min(piece, count - at);
          source.normals({values.data(), n}, global + at);
          for (size_t i = 0; i < n; ++i)
            out[local + at + static_cast<int64_t>(i)] = T(static_cast<A>(values[i] * value));
        }
      });
    };
    for_each_run(spec_.global_shape, region(), draw);
    if (!on_host) local().upload(drawn.data());
  });
}

const Tensor& Parameter::gradient() {
  if (!gradient_.defined() && gradient_storage_) {
    gradient_storage_->allocate_gradient(*this);
    require(gradient_.defined(), "[parameter] ", name(),
            ": its gradient has no memory after GradientStorage::allocate_gradient(); expected this function to call "
            "bind_gradient()");
  }
  if (!gradient_.defined()) gradient_ = Tensor::empty(shape_, accumulator_dtype(dtype()), device_, Category::gradient);
  return gradient_;
}

void Parameter::bind_weights(const Tensor& memory) {
  require(memory.shape() == shape_ && memory.dtype() == dtype(), "[parameter] ", name(), ": weight memory is ",
          memory.shape(), " ", memory.dtype(), "; expected ", shape_, " ", dtype());
  local_ = memory;
}

void Parameter::bind_gradient(const Tensor& memory) {
  require(memory.shape() == shape_ && memory.dtype() == accumulator_dtype(dtype()), "[parameter] ", name(),
          ": gradient memory is ", memory.shape(), " ", memory.dtype(), "; expected ", shape_, " ",
          accumulator_dtype(dtype()));
  gradient_ = memory;
  written_ = false;
}

void Parameter::shard(const Sharding& sharding) {
  const FlatRange& share = sharding.share;
  require(0 <= share.begin && share.begin <= share.end && share.end <= shape_.numel(), "[parameter] ", name(), " ",
          shape_, ": the sharded elements are [", share.begin, ", ", share.end, "); expected a range in [0, ",
          shape_.numel(), "]");
  sharding_ = sharding;
}

Tensor Parameter::owned_weights() {
  if (owned_weights_.defined()) return owned_weights_;
  return local().reshape({shape_.numel()}).slice(0, owned().begin, owned().end);
}

Tensor Parameter::owned_gradient(Stream& stream) {
  if (owned_gradient_.defined()) return owned_gradient_;
  return gradient_to_add(stream).reshape({shape_.numel()}).slice(0, owned().begin, owned().end);
}

const Tensor& Parameter::gradient_to_add(Stream& stream) {
  const Tensor& g = gradient();
  if (next_write() == Write::replace) kernels::kernels(g.device()).pointwise.fill(stream, g, 0.0);
  return g;
}

GradientTarget Parameter::next_gradient_target(int64_t contributions) {
  if (gradient_storage_ && contributions == 1) return gradient_storage_->only_contribution(*this);
  const Tensor& g = gradient();
  return {g, next_write()};
}

Parameter& ParameterSet::add(Parameter::Spec spec) {
  for (const auto& p : all_)
    require(p->name() != spec.name, "[parameters] two parameters are named ", spec.name, "; expected unique names");
  spec.frozen |= matches_any(frozen_, spec.name);
  return *all_.emplace_back(std::make_unique<Parameter>(std::move(spec), device_));
}

Parameter& ParameterSet::find(const std::string& name) const {
  for (const auto& p : all_)
    if (p->name() == name) return *p;
  base::fail_invariant("[parameters] no parameter is named " + name + "; expected a name in the set");
}

}  // namespace hexad::autograd
