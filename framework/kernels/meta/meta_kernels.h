// The families of the meta device's table.
#pragma once

#include "framework/device/meta/meta_run.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::meta {

using base::require;
using base::size_of;
using tensor::device_raw;

inline device::MetaRun& run_of(const Tensor& t) {
  device::MetaRun* run = t.device().context().meta();
  require(run != nullptr, "[meta device] a kernel was given a tensor of another device: ", t.shape(), " ", t.dtype());
  return *run;
}

/// Invalidates the known contents of t, including the gaps between its rows.
inline void forget(const Tensor& t) {
  if (!t.defined() || t.numel() == 0) return;
  int64_t last = 0;  // element
  for (int d = 0; d < t.rank(); ++d) last += (t.dim(d) - 1) * t.strides()[d];
  run_of(t).memory()->forget(device_raw(t), (last + 1) * size_of(t.dtype()));
}
/// Invalidates the values that a step writes: all but the gradients.
inline void forget(std::span<const AdamwSlice> slices) {
  for (const AdamwSlice& s : slices)
    for (const Tensor* t : {&s.main, &s.m, &s.v, &s.weights}) forget(*t);
}
template <OperandStruct S>
void forget(const S& outputs) {
  for_each_tensor<S>([&](auto member) { forget(outputs.*member); });
}

/// Invalidates an operand that the signature marks as an output.
template <class Argument>
void forget_output(const std::remove_cvref_t<Operand<Argument>>& operand) {
  if constexpr (is_out<Argument>) forget(operand);
}

template <auto Family, auto Entry, class>
struct NothingEntry;

template <auto Family, auto Entry, class F, class... Args>
struct NothingEntry<Family, Entry, Kernel<void(Stream&, Args...)> F::*> {
  static void launch(Stream&, Operand<Args>... operands) { (forget_output<Args>(operands), ...); }
};

/// An entry that answers a question of the host about a kernel, as on the CPU.
template <auto Family, auto Entry, class F, class Answer, class... Args>
struct NothingEntry<Family, Entry, Kernel<Answer(Args...)> F::*> {
  static Answer launch(Args... args) { return (cpu_table.*Family.*Entry)(args...); }
};

/// An entry that does nothing.
template <auto Family, auto Entry>
struct Nothing : NothingEntry<Family, Entry, decltype(Entry)> {};

extern const MatmulKernels matmul;
extern const GroupedMatmulKernels grouped_matmul;
void attention_forward(Stream&, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape);
void attention_backward(Stream&, const AttentionGradients& gradients, const Tensor& dout, const AttentionSaved& saved,
                        const AttentionShape& shape);
void router_forward(Stream&, const Tensor& scores, const Tensor& ids, const Tensor& weights, const Tensor& logits,
                    const Tensor& bias, const RouterRule& rule);
extern const CapacityKernels capacity;
extern const SlotKernels slots;

}  // namespace hexad::kernels::meta
