#include <fmt/format.h>

#include "framework/base/units.h"
#include "framework/kernels/gemm_rate.h"
#include "framework/kernels/kernel_table.h"
#include "tools/plan/profile/operand_memory.h"
#include "tools/plan/profile/parts.h"

namespace hexad::plan {
namespace {

using base::Dtype;
using kernels::GroupOffsets;
using kernels::Write;
using tensor::Tensor;

// Products of one shape with any number of rows. The products use several operands in turn, which together fill about
// `in_use` bytes. With bytes_of_outer_cache() bytes, the operands are in an outer cache, like most operands of a step.
class GroupedProduct {
 public:
  GroupedProduct(const ProductShape& shape, Element element, int64_t in_use, device::Device device)
      : shape_(shape), dtype_(dtype_of(element)), in_use_(in_use), device_(device) {
    const int64_t size = shape.experts * shape.outputs * shape.inputs;
    for (int64_t i = 0; i < copies(size * base::size_of(dtype_)); ++i)
      weights_.push_back(zeros({shape.experts, shape.outputs, shape.inputs}, dtype_));
    for (int64_t i = 0; i < copies(4 * size); ++i)
      gradients_.push_back(zeros({shape.experts, shape.outputs, shape.inputs}, Dtype::f32));
  }

  std::function<void()> run(GemmPass pass, int64_t rows) {
    std::vector<int64_t> offsets;
    for (int64_t e = 0; e <= shape_.experts; ++e) offsets.push_back(rows / shape_.experts * e);
    const auto& k = kernels::kernels(device_).grouped_matmul;
    return [this, pass, offsets, all = rows_of(rows), &k, i = size_t{0}]() mutable {
      device::Stream& stream = device_.context().compute();
      const auto& [x, y] = all[i % all.size()];
      switch (pass) {
        case GemmPass::forward:
          k.forward(stream, y, x, weight(i), GroupOffsets::on_host(offsets), Write::replace);
          break;
        case GemmPass::input_gradient:
          k.input_gradient(stream, x, y, weight(i), GroupOffsets::on_host(offsets), Write::replace);
          break;
        case GemmPass::weight_gradient:
          k.weight_gradient(stream, gradients_[i % gradients_.size()], y, x, GroupOffsets::on_host(offsets),
                            Write::add);
          break;
      }
      stream.synchronize();
      ++i;
    };
  }

  // Returns a function that runs forward with one kernel call for each expert. `rows` is at least the number of
  // experts.
  std::function<void()> run_dense(int64_t rows) {
    const int64_t each = rows / shape_.experts;
    const auto& k = kernels::kernels(device_).matmul;
    return [this, each, all = rows_of(rows), &k, i = size_t{0}]() mutable {
      device::Stream& stream = device_.context().compute();
      const auto& [x, y] = all[i % all.size()];
      for (int64_t e = 0; e < shape_.experts; ++e)
        k.forward(stream, y.slice(0, e * each, (e + 1) * each), x.slice(0, e * each, (e + 1) * each),
                  kernels::expert_matrix(weight(i), e), Write::replace);
      stream.synchronize();
      ++i;
    };
  }

 private:
  struct Rows {
    Tensor x, y;
  };

  int64_t copies(int64_t bytes) const { return operands_in_turn(bytes, in_use_, 64); }
  std::vector<Rows> rows_of(int64_t rows) const {
    std::vector<Rows> all(copies(rows * (shape_.inputs + shape_.outputs) * base::size_of(dtype_)));
    for (Rows& r : all) r = {zeros({rows, shape_.inputs}, dtype_), zeros({rows, shape_.outputs}, dtype_)};
    return all;
  }
  // Returns zeros, to which products can be added many times without overflow. The speed does not depend on the values.
  Tensor zeros(base::Shape shape, Dtype dtype) const { return Tensor::zeros(shape, dtype, device_); }
  const Tensor& weight(size_t i) const { return weights_[i % weights_.size()]; }

  ProductShape shape_;
  Dtype dtype_;
  int64_t in_use_;  // approximate bytes of all weights, of all gradients, and of all rows
  device::Device device_;
  std::vector<Tensor> weights_, gradients_;
};

constexpr int64_t row_width = 512;  // columns of the copied tensors, f32

std::function<void()> make_copy(CopyKind kind, int64_t bytes, device::Device device) {
  const int64_t rows = bytes / (4 * row_width);
  const Tensor here = Tensor::zeros({rows, row_width}, Dtype::f32, device),
               other = Tensor::zeros(here.shape(), Dtype::f32, device);
  const auto& k = kernels::kernels(device);
  device::Stream* stream = &device.context().compute();
  switch (kind) {
    case CopyKind::copy:
      return [=, &k] { k.pointwise.copy(*stream, other, here), stream->synchronize(); };
    case CopyKind::gather: {
      std::vector<int64_t> order;  // adjacent rows of the result are far apart in the source
      for (int64_t r = 0; r < rows; ++r) order.push_back(r * 97 % rows);
      return [=, &k, index = Tensor::from<int64_t>(order, {rows}, device)] {
        k.permute.gather(*stream, other, here, index, {}), stream->synchronize();
      };
    }
    case CopyKind::offload:  // maps a file, writes it, and discards it, as for saved activations
      return [=, &k] {
        const Tensor away = Tensor::offloaded(here.shape(), Dtype::f32, device);
        k.pointwise.copy(*stream, away, here), stream->synchronize();
      };
    case CopyKind::restore: {
      const Tensor away = Tensor::offloaded(here.shape(), Dtype::f32, device);
      k.pointwise.fill(*stream, away, 0);
      return [=, &k] { k.pointwise.copy(*stream, here, away), stream->synchronize(); };
    }
  }
  base::fail_invariant(base::cat("[profile] the kind of copy is ", static_cast<int>(kind), "; expected a CopyKind"));
}

}  // namespace

void measure_peaks(Cluster& cluster, const Timer& timer, const Progress& progress) {
  for (const auto& [element, name] : enum_names(Element{})) {
    timer.wait_for_ranks();
    const kernels::GemmRate rate = kernels::sample_gemm_rate(timer.device(), dtype_of(element), 0);
    cluster.peaks.push_back({element, rounded(timer.mean(rate.flops_per_second))});
    progress(fmt::format("{} products: {} per rank", name,
                         base::human_quantity(cluster.peaks.back().flops_per_second, "FLOP/s")));
  }
}

void measure_products(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                      const Progress& progress) {
  constexpr auto elements = enum_names(Element{});
  constexpr auto passes = enum_names(GemmPass{});
  const Budget budget(timer, seconds);
  size_t open = options.products.size() * elements.size() * (passes.size() + 1);
  std::vector<int64_t> sizes;
  for (int64_t rows = 16; rows <= options.largest_rows; rows *= options.row_ratio) sizes.push_back(rows);
  if (sizes.back() < options.largest_rows) sizes.push_back(options.largest_rows);
  for (const auto& [element, element_name] : elements)
    for (const ProductShape& shape : options.products) {
      GroupedProduct product(shape, element, bytes_of_outer_cache(options.max_in_use), timer.device());
      double best = 0;
      for (const auto& [pass, pass_name] : passes) {
        const auto prepare = [&, p = pass](int64_t rows) -> Timer::Work {
          return {static_cast<double>(rows), product.run(p, rows), kernel_batch};
        };
        const double share = budget.left() / static_cast<double>(open--);
        MeasuredProduct measured{element,      pass,          shape.experts,
                                 shape.inputs, shape.outputs, timer.curve(sizes, share, prepare)};
        for (const auto& [rows, took] : measured.points.points)
          best = std::max(best, 2.0 * rows * static_cast<double>(shape.inputs * shape.outputs) / took);
        cluster.products.push_back(std::move(measured));
      }
      const double share = budget.left() / static_cast<double>(open--);
      std::vector<int64_t> of_experts = sizes;  // only sizes for which every expert has rows
      std::erase_if(of_experts, [&](int64_t rows) { return rows < shape.experts; });
      if (shape.experts > 1 && of_experts.size() > 1) {
        const auto prepare = [&](int64_t rows) -> Timer::Work {
          return {static_cast<double>(rows), product.run_dense(rows), kernel_batch};
        };
        MeasuredProduct dense{element,      GemmPass::forward, shape.experts,
                              shape.inputs, shape.outputs,     timer.curve(of_experts, share, prepare)};
        cluster.dense_products.push_back(std::move(dense));
      }
      progress(fmt::format("{} products of {} experts, {} x {}: up to {} per rank", element_name, shape.experts,
                           shape.inputs, shape.outputs, base::human_quantity(best, "FLOP/s")));
    }
}

void measure_copies(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                    const Progress& progress) {
  constexpr auto kinds = enum_names(CopyKind{});
  std::vector<int64_t> sizes;
  for (int64_t bytes = 16 << 10; bytes <= options.largest_bytes; bytes *= 4) sizes.push_back(bytes);
  const Budget budget(timer, seconds);
  size_t open = kinds.size();
  for (const auto& [kind, name] : kinds) {
    const auto prepare = [&, k = kind](int64_t bytes) -> Timer::Work {
      return {static_cast<double>(bytes), make_copy(k, bytes, timer.device()), kernel_batch};
    };
    const Curve curve = timer.curve(sizes, budget.left() / static_cast<double>(open--), prepare);
    cluster.copies.push_back({kind, curve});
    const Curve::Point& last = curve.points.back();
    progress(
        fmt::format("{}: {} at {}", name, base::human_quantity(last.x / last.y, "B/s"), base::human_bytes(last.x)));
  }
}

}  // namespace hexad::plan
