#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "framework/base/units.h"
#include "framework/kernels/kernel_table.h"
#include "tools/plan/measured_kernels.h"
#include "tools/plan/profile/operand_memory.h"
#include "tools/plan/profile/parts.h"

namespace hexad::plan {
namespace {

using base::Dtype;
using kernels::KernelTable;
using tensor::Tensor;

// A kernel, with the bytes that it reads and writes (as the meta device counts them), and the bytes of its tensors.
struct SmallKernel {
  int64_t bytes = 0;
  std::function<void(const KernelTable&, device::Stream&)> run;
  int64_t memory = bytes;
};

// Makes kernels that work on zeros. The speed of these kernels does not depend on the values.
class SmallKernels {
 public:
  SmallKernels(Element element, device::Device device) : dtype_(dtype_of(element)), device_(device) {}

  // Returns a kernel of about `bytes` bytes that represents its class.
  SmallKernel make(KernelClass of, int64_t bytes) {
    switch (of) {
      case KernelClass::pointwise: {
        const Tensor out = matrix(bytes, 3), a = zeros(out.shape()), b = zeros(out.shape());
        return {bytes_of({out, a, b}), [=](const KernelTable& k, device::Stream& s) { k.pointwise.add(s, out, a, b); }};
      }
      case KernelClass::activation: {
        const Tensor out = matrix(bytes, 3), gate = zeros(out.shape()), up = zeros(out.shape());
        return {bytes_of({out, gate, up}),
                [=](const KernelTable& k, device::Stream& s) { k.swiglu.forward(s, out, gate, up, {}); }};
      }
      case KernelClass::gelu: {
        const Tensor out = matrix(bytes, 2), x = zeros(out.shape());
        return {bytes_of({out, x}),
                [=](const KernelTable& k, device::Stream& s) { k.gelu.forward(s, out, x, kernels::GeluKind::exact); }};
      }
      case KernelClass::norm: {
        const Tensor out = matrix(bytes, 2), x = zeros(out.shape()), gain = zeros({width}),
                     inverse_rms = zeros({out.dim(0)}, Dtype::f32);
        return {bytes_of({out, x, gain, inverse_rms}), [=](const KernelTable& k, device::Stream& s) {
                  k.rms_norm.forward(s, out, {}, inverse_rms, x, {}, gain, 1e-6);
                }};
      }
      case KernelClass::reduction: {
        const Tensor gradient = zeros({std::max<int64_t>(1, bytes / base::size_of(dtype_))}),
                     sum = zeros({1}, Dtype::f64);
        return {bytes_of({gradient, sum}), [=](const KernelTable& k, device::Stream& s) {
                  k.optimizer.squared_norm(s, sum, gradient, kernels::Write::replace);
                }};
      }
      case KernelClass::permute: {
        const Tensor out = matrix(bytes, 2), x = zeros(out.shape());
        std::vector<int64_t> order;  // adjacent rows of the result are far apart in the source
        for (int64_t r = 0; r < out.dim(0); ++r) order.push_back(r * 97 % out.dim(0));
        const Tensor index = Tensor::from<int64_t>(order, {out.dim(0)}, device_);
        return {bytes_of({out, x, index}),
                [=](const KernelTable& k, device::Stream& s) { k.permute.gather(s, out, x, index, {}); }};
      }
      case KernelClass::router: {
        const int64_t tokens = std::max<int64_t>(1, bytes / (4 * (2 * experts + 2 * top_k)));
        const Tensor logits = zeros({tokens, experts}, Dtype::f32), scores = zeros({tokens, experts}, Dtype::f32),
                     ids = zeros({tokens, top_k}, Dtype::i32), weights = zeros({tokens, top_k}, Dtype::f32);
        return {bytes_of({logits, scores, ids, weights}), [=](const KernelTable& k, device::Stream& s) {
                  k.router.forward(s, scores, ids, weights, logits, {}, {.top_k = top_k});
                }};
      }
      case KernelClass::loss: {
        const Tensor logits = zeros({std::max<int64_t>(1, bytes / (8 * width)), width}, Dtype::f32),
                     dlogits = zeros(logits.shape(), Dtype::f32), losses = zeros({logits.dim(0)}, Dtype::f32),
                     targets = zeros({logits.dim(0)}, Dtype::i32);
        return {bytes_of({logits, dlogits, losses, targets}), [=](const KernelTable& k, device::Stream& s) {
                  k.cross_entropy.forward(s, losses, dlogits, logits, targets, 1.0);
                }};
      }
      case KernelClass::optimizer: {
        // In bf16, moments are rounded stochastically, and a copy of the weights is written.
        const bool narrow = dtype_ == Dtype::bf16;
        const int64_t n = std::max<int64_t>(1, bytes / (narrow ? 22 : 28));
        const Tensor main = zeros({n}, Dtype::f32), m = zeros({n}), v = zeros({n}), gradient = zeros({n}, Dtype::f32),
                     weights = narrow ? zeros({n}) : main;
        const int64_t updated = bytes_of({main, m, v}),  // read and written
            memory = updated + bytes_of({gradient}) + (narrow ? bytes_of({weights}) : 0);
        return {
            updated + memory,
            [=](const KernelTable& k, device::Stream& s) {
              const kernels::AdamwSlice slice{main, m, v, weights, gradient, 0.1};
              k.optimizer.adamw(s, {&slice, 1}, {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = 1}, {});
            },
            memory};
      }
    }
    base::fail_invariant(
        base::cat("[profile] the class of kernels is ", static_cast<int>(of), "; expected a KernelClass"));
  }

 private:
  static constexpr int64_t width = 512;              // columns of matrices
  static constexpr int64_t experts = 16, top_k = 2;  // experts of the router, and experts of a token

  Tensor zeros(base::Shape shape, Dtype dtype) const { return Tensor::zeros(std::move(shape), dtype, device_); }
  Tensor zeros(base::Shape shape) const { return zeros(std::move(shape), dtype_); }
  // Returns one of `tensors` equal matrices whose total size is `bytes`.
  Tensor matrix(int64_t bytes, int64_t tensors) const {
    return zeros({std::max<int64_t>(1, bytes / (tensors * width * base::size_of(dtype_))), width});
  }
  static int64_t bytes_of(std::initializer_list<Tensor> tensors) {
    int64_t bytes = 0;
    for (const Tensor& t : tensors) bytes += t.bytes();
    return bytes;
  }

  Dtype dtype_;
  device::Device device_;
};

// Returns the total size of the operands that the kernels of a class use in turn. With this size, operands come from
// the same level of memory as in a step. Activations usually come from an outer cache. Gradients and the optimizer's
// states come from memory, because a step uses them only once.
int64_t bytes_in_use(KernelClass of, int64_t ranks_of_node, int64_t most) {
  if (of == KernelClass::optimizer || of == KernelClass::reduction) return bytes_beyond_caches(ranks_of_node, most);
  return bytes_of_outer_cache(most);
}

// Returns the timed work of a kernel of about `bytes` bytes. Each run takes the next of several sets of operands.
// Together, the sets have about `in_use` bytes, but there are at most 1024 sets.
Timer::Work in_turn(SmallKernels& kernels_of, KernelClass of, int64_t bytes, int64_t in_use, device::Device device) {
  std::vector<SmallKernel> all{kernels_of.make(of, bytes)};
  const int64_t count = operands_in_turn(all[0].memory, in_use, 1024);
  while (std::ssize(all) < count) all.push_back(kernels_of.make(of, bytes));
  const auto size = static_cast<double>(all[0].bytes);
  return {size,
          [all = std::move(all), next = size_t{0}, device]() mutable {
            device::Stream& stream = device.context().compute();
            all[next].run(kernels::kernels(device), stream), stream.synchronize();
            next = (next + 1) % all.size();
          },
          kernel_batch};
}

}  // namespace

void measure_small_kernels(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                           const Progress& progress) {
  constexpr auto classes = enum_names(KernelClass{});
  constexpr auto elements = enum_names(Element{});
  std::vector<int64_t> sizes;
  for (int64_t bytes = 4 << 10; bytes <= options.largest_bytes; bytes *= 4) sizes.push_back(bytes);
  const Budget budget(timer, seconds);
  size_t open = 0;  // number of remaining measurements
  for (const auto& [of, name] : classes) open += works_in_bf16(of) ? elements.size() : 1;
  for (const auto& [element, element_name] : elements)
    for (const auto& [of, name] : classes) {
      if (element != Element::f32 && !works_in_bf16(of)) continue;
      SmallKernels kernels_of(element, timer.device());
      const int64_t in_use = bytes_in_use(of, cluster.measured.ranks_per_node, options.max_in_use);
      const auto prepare = [&, c = of](int64_t bytes) { return in_turn(kernels_of, c, bytes, in_use, timer.device()); };
      const Curve curve = timer.curve(sizes, budget.left() / static_cast<double>(open--), prepare);
      cluster.kernels.push_back({of, element, curve});
      const Curve::Point& last = curve.points.back();
      progress(fmt::format("{} kernels in {}: {} at {}", name, element_name,
                           base::human_quantity(last.x / last.y, "B/s"), base::human_bytes(last.x)));
    }
}

}  // namespace hexad::plan
