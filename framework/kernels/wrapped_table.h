// A table whose entries are those of another one in a wrapping.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

template <template <auto Family, auto Entry> class Wrap, auto Family, auto Entry>
inline constexpr auto entry = Wrap<Family, Entry>::launch;

/// `Wrap<&KernelTable::matmul, &MatmulKernels::forward>::launch` is the function that stands for that entry.
template <template <auto Family, auto Entry> class Wrap>
constexpr KernelTable wrapped_table() {
  return {
      .matmul = {.forward = entry<Wrap, &KernelTable::matmul, &MatmulKernels::forward>,
                 .input_gradient = entry<Wrap, &KernelTable::matmul, &MatmulKernels::input_gradient>,
                 .weight_gradient = entry<Wrap, &KernelTable::matmul, &MatmulKernels::weight_gradient>},
      .grouped_matmul = {.forward = entry<Wrap, &KernelTable::grouped_matmul, &GroupedMatmulKernels::forward>,
                         .input_gradient =
                             entry<Wrap, &KernelTable::grouped_matmul, &GroupedMatmulKernels::input_gradient>,
                         .weight_gradient =
                             entry<Wrap, &KernelTable::grouped_matmul, &GroupedMatmulKernels::weight_gradient>},
      .bias = {.forward = entry<Wrap, &KernelTable::bias, &BiasKernels::forward>,
               .backward = entry<Wrap, &KernelTable::bias, &BiasKernels::backward>,
               .grouped_forward = entry<Wrap, &KernelTable::bias, &BiasKernels::grouped_forward>,
               .grouped_backward = entry<Wrap, &KernelTable::bias, &BiasKernels::grouped_backward>},
      .rms_norm = {.forward = entry<Wrap, &KernelTable::rms_norm, &RmsNormKernels::forward>,
                   .backward = entry<Wrap, &KernelTable::rms_norm, &RmsNormKernels::backward>,
                   .partials = entry<Wrap, &KernelTable::rms_norm, &RmsNormKernels::partials>},
      .layer_norm = {.forward = entry<Wrap, &KernelTable::layer_norm, &LayerNormKernels::forward>,
                     .input_gradient = entry<Wrap, &KernelTable::layer_norm, &LayerNormKernels::input_gradient>,
                     .weight_gradient = entry<Wrap, &KernelTable::layer_norm, &LayerNormKernels::weight_gradient>},
      .rotary = {.apply = entry<Wrap, &KernelTable::rotary, &RotaryKernels::apply>},
      .attention = {.forward = entry<Wrap, &KernelTable::attention, &AttentionKernels::forward>,
                    .backward = entry<Wrap, &KernelTable::attention, &AttentionKernels::backward>,
                    .merge = entry<Wrap, &KernelTable::attention, &AttentionKernels::merge>},
      .swiglu = {.forward = entry<Wrap, &KernelTable::swiglu, &SwigluKernels::forward>,
                 .backward = entry<Wrap, &KernelTable::swiglu, &SwigluKernels::backward>},
      .gelu = {.forward = entry<Wrap, &KernelTable::gelu, &GeluKernels::forward>,
               .backward = entry<Wrap, &KernelTable::gelu, &GeluKernels::backward>},
      .router = {.forward = entry<Wrap, &KernelTable::router, &RouterKernels::forward>,
                 .weigh = entry<Wrap, &KernelTable::router, &RouterKernels::weigh>,
                 .backward = entry<Wrap, &KernelTable::router, &RouterKernels::backward>},
      .router_loss = {.count = entry<Wrap, &KernelTable::router_loss, &RouterLossKernels::count>,
                      .fractions = entry<Wrap, &KernelTable::router_loss, &RouterLossKernels::fractions>,
                      .balance = entry<Wrap, &KernelTable::router_loss, &RouterLossKernels::balance>,
                      .balance_backward = entry<Wrap, &KernelTable::router_loss, &RouterLossKernels::balance_backward>,
                      .z = entry<Wrap, &KernelTable::router_loss, &RouterLossKernels::z>,
                      .z_backward = entry<Wrap, &KernelTable::router_loss, &RouterLossKernels::z_backward>},
      .capacity = {.drop = entry<Wrap, &KernelTable::capacity, &CapacityKernels::drop>},
      .slots = {.mask = entry<Wrap, &KernelTable::slots, &SlotKernels::mask>,
                .sort = entry<Wrap, &KernelTable::slots, &SlotKernels::sort>,
                .keys = entry<Wrap, &KernelTable::slots, &SlotKernels::keys>,
                .iota = entry<Wrap, &KernelTable::slots, &SlotKernels::iota>},
      .index = {.shift = entry<Wrap, &KernelTable::index, &IndexKernels::shift>,
                .within = entry<Wrap, &KernelTable::index, &IndexKernels::within>,
                .shift_parts = entry<Wrap, &KernelTable::index, &IndexKernels::shift_parts>,
                .take = entry<Wrap, &KernelTable::index, &IndexKernels::take>,
                .inverse = entry<Wrap, &KernelTable::index, &IndexKernels::inverse>},
      .permute = {.gather = entry<Wrap, &KernelTable::permute, &PermuteKernels::gather>,
                  .combine = entry<Wrap, &KernelTable::permute, &PermuteKernels::combine>,
                  .combine_backward = entry<Wrap, &KernelTable::permute, &PermuteKernels::combine_backward>,
                  .scatter = entry<Wrap, &KernelTable::permute, &PermuteKernels::scatter>,
                  .gather_weighted = entry<Wrap, &KernelTable::permute, &PermuteKernels::gather_weighted>,
                  .row_dots = entry<Wrap, &KernelTable::permute, &PermuteKernels::row_dots>},
      .wire = {.pack = entry<Wrap, &KernelTable::wire, &WireKernels::pack>,
               .unpack = entry<Wrap, &KernelTable::wire, &WireKernels::unpack>},
      .embedding = {.forward = entry<Wrap, &KernelTable::embedding, &EmbeddingKernels::forward>,
                    .backward = entry<Wrap, &KernelTable::embedding, &EmbeddingKernels::backward>},
      .cross_entropy = {.forward = entry<Wrap, &KernelTable::cross_entropy, &CrossEntropyKernels::forward>,
                        .chunk_rows = entry<Wrap, &KernelTable::cross_entropy, &CrossEntropyKernels::chunk_rows>},
      .split_softmax = {.start = entry<Wrap, &KernelTable::split_softmax, &SplitSoftmaxKernels::start>,
                        .finish = entry<Wrap, &KernelTable::split_softmax, &SplitSoftmaxKernels::finish>},
      .pointwise = {.fill = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::fill>,
                    .copy = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::copy>,
                    .add = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::add>,
                    .axpy = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::axpy>,
                    .scale = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::scale>,
                    .clamp = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::clamp>,
                    .clamp_backward = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::clamp_backward>,
                    .sum = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::sum>,
                    .sum_of = entry<Wrap, &KernelTable::pointwise, &PointwiseKernels::sum_of>},
      .optimizer = {.adamw = entry<Wrap, &KernelTable::optimizer, &OptimizerKernels::adamw>,
                    .sgd = entry<Wrap, &KernelTable::optimizer, &OptimizerKernels::sgd>,
                    .squared_norm = entry<Wrap, &KernelTable::optimizer, &OptimizerKernels::squared_norm>,
                    .clip = entry<Wrap, &KernelTable::optimizer, &OptimizerKernels::clip>},
  };
}

}  // namespace hexad::kernels
