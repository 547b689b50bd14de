// The families of the meta device's table.
#pragma once

#include "framework/device/meta/meta_run.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::meta {

using base::require;
using tensor::device_raw;

inline device::MetaRun& run_of(const Tensor& t) {
  device::MetaRun* run = t.device().context().meta();
  require(run != nullptr, "[meta device] a kernel was given a tensor of another device: ", t.shape(), " ", t.dtype());
  return *run;
}

/// What was known of a result is not any more.
inline void forget(const Tensor& t) {
  if (t.defined() && t.numel() > 0) run_of(t).memory()->forget(device_raw(t));
}
template <class T>
void forget(const T&) {}

template <auto Family, auto Entry, class>
struct NothingEntry;

template <auto Family, auto Entry, class F, class Out, class... Args>
struct NothingEntry<Family, Entry, void (*F::*)(Stream&, Out, Args...)> {
  static void launch(Stream&, Out out, Args...) { forget(out); }  // results come first
};

/// What the host asks about a kernel: as on the CPU.
template <auto Family, auto Entry, class F, class Answer, class... Args>
struct NothingEntry<Family, Entry, Answer (*F::*)(Args...)> {
  static Answer launch(Args... args) { return (cpu_table.*Family.*Entry)(args...); }
};

/// An entry that does nothing.
template <auto Family, auto Entry>
struct Nothing : NothingEntry<Family, Entry, decltype(Entry)> {};

extern const MatmulKernels matmul;
extern const GroupedMatmulKernels grouped_matmul;
void attention_forward(Stream&, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape);
void attention_backward(Stream&, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dout,
                        const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& first, const Tensor& last, const AttentionShape& shape);
void router_forward(Stream&, const Tensor& scores, const Tensor& ids, const Tensor& weights, const Tensor& logits,
                    const Tensor& bias, const RouterRule& rule);
extern const CapacityKernels capacity;
extern const SlotKernels slots;

}  // namespace hexad::kernels::meta
