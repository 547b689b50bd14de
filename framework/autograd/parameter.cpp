#include "framework/autograd/parameter.h"

#include "framework/base/philox.h"

namespace hexad::autograd {
namespace {

// Calls f(local offset, global index) for every element of `region` in row-major order.
template <class F>
void for_each_element(const Shape& global, const Placement::Region& region, F&& f) {
  const Shape strides = global.row_major_strides();
  const int rank = global.rank();
  const int64_t count = region.size.numel();
  for (int64_t local = 0; local < count; ++local) {
    int64_t rest = local, index = 0;
    for (int d = rank - 1; d >= 0; --d) {
      index += (region.begin[d] + rest % region.size[d]) * strides[d];
      rest /= region.size[d];
    }
    f(local, index);
  }
}

// A placement cuts into equal pieces only.
Parameter::Spec checked(Parameter::Spec spec) {
  Shape left = spec.global_shape;
  for (const Shard& s : spec.placement.shards) {
    require(s.parts > 0 && left[s.dim] % s.parts == 0 && 0 <= s.index && s.index < s.parts, "[parameter] ", spec.name,
            " ", spec.global_shape, ": piece ", s.index, " of ", s.parts, " of dimension ", s.dim);
    left[s.dim] /= s.parts;
  }
  return spec;
}

}  // namespace

Parameter::Parameter(Spec spec, Device device)
    : spec_(checked(std::move(spec))), local_(Tensor::empty(region().size, spec_.dtype, device, Category::parameter)) {}

void Parameter::initialize(uint64_t seed) {
  const Philox random(seed, Purpose::init, spec_.name);
  with_dtype<float, bf16, double>("initialize", spec_.dtype, [&]<class T>() {
    T* out = local_.data<T>();
    using A = accumulator_t<T>;
    if (spec_.init.kind == Init::Kind::constant) {
      std::fill_n(out, local_.numel(), T(static_cast<A>(spec_.init.value)));
      return;
    }
    // Rounded through float, so that an fp64 run starts from the very weights of an fp32 run.
    for_each_element(spec_.global_shape, region(), [&](int64_t local, int64_t global) {
      const float value = static_cast<float>(random.normal(static_cast<uint64_t>(global)) * spec_.init.value);
      out[local] = T(static_cast<A>(value));
    });
  });
  changed();
}

const Tensor& Parameter::gradient() {
  if (!gradient_.defined())
    gradient_ = Tensor::empty(local_.shape(), accumulator_dtype(spec_.dtype), local_.device(), Category::gradient);
  return gradient_;
}

void Parameter::bind_gradient(const Tensor& memory) {
  require(memory.shape() == local_.shape() && memory.dtype() == accumulator_dtype(spec_.dtype), "[parameter] ", name(),
          ": gradient memory is ", memory.shape(), " ", memory.dtype());
  gradient_ = memory;
  written_ = false;
}

const Tensor& Parameter::gradient_to_add(Stream& stream) {
  const Tensor& g = gradient();
  if (next_write() == Write::replace) kernels::kernels(g.device()).pointwise.fill(stream, g, 0.0);
  return g;
}

Parameter& ParameterSet::add(Parameter::Spec spec) {
  for (const auto& p : all_) require(p->name() != spec.name, "[parameters] two parameters are named ", spec.name);
  return *all_.emplace_back(std::make_unique<Parameter>(std::move(spec), device_));
}

Parameter& ParameterSet::find(const std::string& name) const {
  for (const auto& p : all_)
    if (p->name() == name) return *p;
  base::fail_invariant("[parameters] no parameter is named " + name);
}

}  // namespace hexad::autograd
