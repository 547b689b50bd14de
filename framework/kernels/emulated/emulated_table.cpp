#include "framework/device/emulated/heap.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/emulated/queued.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels {
namespace emulated {

Tensor Launch::hold(const Tensor& t) {
  if (!t.defined()) return t;
  std::byte* begin = DeviceAccess::begin(*t.storage());
  if (!begin) return t.borrowed_at(nullptr, t.device().host());  // no elements
  const auto& memory = stream_.heap().memory();
  require(memory.contains(begin), "[emulated device] a kernel was given memory that is not the device's: ", t.shape(),
          " ", t.dtype());
  blocks_.push_back(begin);
  return t.borrowed_at(memory.device(begin), t.device().host());
}

std::vector<Tensor> Launch::hold(std::span<const Tensor> tensors) {
  std::vector<Tensor> held;
  for (const Tensor& t : tensors) held.push_back(hold(t));
  return held;
}

std::vector<AdamwSlice> Launch::hold(std::span<const AdamwSlice> slices) {
  std::vector<AdamwSlice> held;
  for (const AdamwSlice& s : slices)
    held.push_back({hold(s.main), hold(s.m), hold(s.v), hold(s.weights), hold(s.gradient), s.weight_decay});
  return held;
}

Launch::HeldOffsets Launch::hold(const GroupOffsets& o) {
  return {{o.host.begin(), o.host.end()},
          {.groups = o.groups, .max_rows = o.max_rows, .host = {}, .device = hold(o.device)}};
}

void Launch::run(std::function<void(Stream&)> kernel) {
  stream_.launch(blocks_, [kernel = std::move(kernel), threads = cpu::thread_count()] {
    cpu::set_thread_count(threads);
    device::InlineStream here;
    kernel(here);
  });
}

namespace {

template <auto Entry>
constexpr auto matmul = queued<&KernelTable::matmul, Entry>;
template <auto Entry>
constexpr auto grouped = queued<&KernelTable::grouped_matmul, Entry>;
template <auto Entry>
constexpr auto bias = queued<&KernelTable::bias, Entry>;
template <auto Entry>
constexpr auto rms_norm = queued<&KernelTable::rms_norm, Entry>;
template <auto Entry>
constexpr auto layer_norm = queued<&KernelTable::layer_norm, Entry>;
template <auto Entry>
constexpr auto attention = queued<&KernelTable::attention, Entry>;
template <auto Entry>
constexpr auto swiglu = queued<&KernelTable::swiglu, Entry>;
template <auto Entry>
constexpr auto gelu = queued<&KernelTable::gelu, Entry>;
template <auto Entry>
constexpr auto router = queued<&KernelTable::router, Entry>;
template <auto Entry>
constexpr auto router_loss = queued<&KernelTable::router_loss, Entry>;
template <auto Entry>
constexpr auto capacity = queued<&KernelTable::capacity, Entry>;
template <auto Entry>
constexpr auto slots = queued<&KernelTable::slots, Entry>;
template <auto Entry>
constexpr auto indices = queued<&KernelTable::index, Entry>;
template <auto Entry>
constexpr auto permute = queued<&KernelTable::permute, Entry>;
template <auto Entry>
constexpr auto wire = queued<&KernelTable::wire, Entry>;
template <auto Entry>
constexpr auto embedding = queued<&KernelTable::embedding, Entry>;
template <auto Entry>
constexpr auto split_softmax = queued<&KernelTable::split_softmax, Entry>;
template <auto Entry>
constexpr auto pointwise = queued<&KernelTable::pointwise, Entry>;
template <auto Entry>
constexpr auto optimizer = queued<&KernelTable::optimizer, Entry>;

int64_t partials(int64_t rows) { return cpu_table.rms_norm.partials(rows); }
int64_t chunk_rows(int64_t rows, int64_t vocabulary) { return cpu_table.cross_entropy.chunk_rows(rows, vocabulary); }

}  // namespace
}  // namespace emulated

using namespace emulated;

const KernelTable emulated_table{
    .matmul = {.forward = matmul<&MatmulKernels::forward>,
               .input_gradient = matmul<&MatmulKernels::input_gradient>,
               .weight_gradient = matmul<&MatmulKernels::weight_gradient>},
    .grouped_matmul = {.forward = grouped<&GroupedMatmulKernels::forward>,
                       .input_gradient = grouped<&GroupedMatmulKernels::input_gradient>,
                       .weight_gradient = grouped<&GroupedMatmulKernels::weight_gradient>},
    .bias = {.forward = bias<&BiasKernels::forward>,
             .backward = bias<&BiasKernels::backward>,
             .grouped_forward = bias<&BiasKernels::grouped_forward>,
             .grouped_backward = bias<&BiasKernels::grouped_backward>},
    .rms_norm = {.forward = rms_norm<&RmsNormKernels::forward>,
                 .backward = rms_norm<&RmsNormKernels::backward>,
                 .partials = partials},
    .layer_norm = {.forward = layer_norm<&LayerNormKernels::forward>,
                   .input_gradient = layer_norm<&LayerNormKernels::input_gradient>,
                   .weight_gradient = layer_norm<&LayerNormKernels::weight_gradient>},
    .rotary = {.apply = queued<&KernelTable::rotary, &RotaryKernels::apply>},
    .attention = {.forward = attention<&AttentionKernels::forward>,
                  .backward = attention<&AttentionKernels::backward>,
                  .merge = attention<&AttentionKernels::merge>},
    .swiglu = {.forward = swiglu<&SwigluKernels::forward>, .backward = swiglu<&SwigluKernels::backward>},
    .gelu = {.forward = gelu<&GeluKernels::forward>, .backward = gelu<&GeluKernels::backward>},
    .router = {.forward = router<&RouterKernels::forward>,
               .weigh = router<&RouterKernels::weigh>,
               .backward = router<&RouterKernels::backward>},
    .router_loss = {.count = router_loss<&RouterLossKernels::count>,
                    .fractions = router_loss<&RouterLossKernels::fractions>,
                    .balance = router_loss<&RouterLossKernels::balance>,
                    .balance_backward = router_loss<&RouterLossKernels::balance_backward>,
                    .z = router_loss<&RouterLossKernels::z>,
                    .z_backward = router_loss<&RouterLossKernels::z_backward>},
    .capacity = {.drop = capacity<&CapacityKernels::drop>},
    .slots = {.mask = slots<&SlotKernels::mask>,
              .sort = slots<&SlotKernels::sort>,
              .keys = slots<&SlotKernels::keys>,
              .iota = slots<&SlotKernels::iota>},
    .index = {.shift = indices<&IndexKernels::shift>,
              .within = indices<&IndexKernels::within>,
              .shift_parts = indices<&IndexKernels::shift_parts>,
              .take = indices<&IndexKernels::take>,
              .inverse = indices<&IndexKernels::inverse>},
    .permute = {.gather = permute<&PermuteKernels::gather>,
                .combine = permute<&PermuteKernels::combine>,
                .combine_backward = permute<&PermuteKernels::combine_backward>,
                .scatter = permute<&PermuteKernels::scatter>,
                .gather_weighted = permute<&PermuteKernels::gather_weighted>,
                .row_dots = permute<&PermuteKernels::row_dots>},
    .wire = {.pack = wire<&WireKernels::pack>, .unpack = wire<&WireKernels::unpack>},
    .embedding = {.forward = embedding<&EmbeddingKernels::forward>, .backward = embedding<&EmbeddingKernels::backward>},
    .cross_entropy = {.forward = queued<&KernelTable::cross_entropy, &CrossEntropyKernels::forward>,
                      .chunk_rows = chunk_rows},
    .split_softmax = {.start = split_softmax<&SplitSoftmaxKernels::start>,
                      .finish = split_softmax<&SplitSoftmaxKernels::finish>},
    .pointwise = {.fill = pointwise<&PointwiseKernels::fill>,
                  .copy = pointwise<&PointwiseKernels::copy>,
                  .add = pointwise<&PointwiseKernels::add>,
                  .axpy = pointwise<&PointwiseKernels::axpy>,
                  .scale = pointwise<&PointwiseKernels::scale>,
                  .clamp = pointwise<&PointwiseKernels::clamp>,
                  .clamp_backward = pointwise<&PointwiseKernels::clamp_backward>,
                  .sum = pointwise<&PointwiseKernels::sum>,
                  .sum_of = pointwise<&PointwiseKernels::sum_of>},
    .optimizer = {.adamw = optimizer<&OptimizerKernels::adamw>,
                  .sgd = optimizer<&OptimizerKernels::sgd>,
                  .squared_norm = optimizer<&OptimizerKernels::squared_norm>,
                  .clip = optimizer<&OptimizerKernels::clip>},
};

}  // namespace hexad::kernels
