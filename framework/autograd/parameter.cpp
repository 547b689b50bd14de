#include "framework/autograd/parameter.h"

#include <algorithm>
#include <array>

#include "framework/base/philox.h"
#include "framework/kernels/cpu/parallel.h"

namespace hexad::autograd {
namespace {

// Calls f(local offset, global index, count) for every run of elements of `region` that is contiguous in the global
// tensor.
template <class F>
void for_each_run(const Shape& global, const Placement::Region& region, F&& f) {
  const int rank = global.rank();
  const Shape strides = global.row_major_strides();
  // Dimensions that are held whole join the run of the one before them.
  int dim = rank - 1;
  int64_t run = rank > 0 ? region.size[dim] : 1;
  for (; dim > 0 && region.size[dim] == global[dim]; --dim) run *= region.size[dim - 1];
  const int64_t runs = run > 0 ? region.size.numel() / run : 0;
  for (int64_t r = 0; r < runs; ++r) {
    int64_t rest = r, index = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t steps = d >= dim ? 1 : region.size[d];  // inside a run only its first element counts
      index += (region.begin[d] + rest % steps) * strides[d];
      rest /= steps;
    }
    f(r * run, index, run);
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
    // Drawn in float, so that an fp64 run starts from the very weights of an fp32 run.
    constexpr int64_t piece = 4096;
    const auto draw = [&](int64_t local, int64_t global, int64_t count) {
      kernels::cpu::parallel_for((count + piece - 1) / piece, 16, [&](int64_t begin, int64_t end) {
        std::array<float, piece> values;
        for (int64_t at = begin * piece; at < std::min(count, end * piece); at += piece) {
          const auto n = static_cast<size_t>(std::min(piece, count - at));
          random.normals({values.data(), n}, static_cast<uint64_t>(global + at));
          for (size_t i = 0; i < n; ++i)
            out[local + at + static_cast<int64_t>(i)] =
                T(static_cast<A>(values[i] * static_cast<float>(spec_.init.value)));
        }
      });
    };
    for_each_run(spec_.global_shape, region(), draw);
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
