// Kernel families of the meta device.
#pragma once

#include "framework/device/meta/meta_run.h"
#include "framework/device/meta/meta_stream.h"
#include "framework/kernels/entries.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::meta {

using base::require;
using base::size_of;
using tensor::device_raw;

inline device::MetaRun& run_of(const Tensor& t) {
  device::MetaRun* run = t.device().context().meta();
  require(run != nullptr, "[meta device] an operand of a kernel, ", t.dtype(), " ", t.shape(), ", is on device ",
          device::name_of(t.device().kind()), "; expected meta");
  return *run;
}

/// Invalidates the known contents of t, including the gaps between its rows.
inline void forget(const Tensor& t) {
  if (!t.defined() || t.numel() == 0) return;
  int64_t last = 0;  // index of the last element
  for (int d = 0; d < t.rank(); ++d) last += (t.dim(d) - 1) * t.strides()[d];
  run_of(t).memory()->forget(device_raw(t), (last + 1) * size_of(t.dtype()));
}
/// Invalidates the values that an optimizer step writes: all tensors except the gradients.
inline void forget(std::span<const AdamwSlice> slices) {
  for (const AdamwSlice& s : slices)
    for (const Tensor* t : {&s.main, &s.m, &s.v, &s.weights}) forget(*t);
}
template <OperandStruct S>
void forget(const S& outputs) {
  for_each_tensor<S>([&](auto member) { forget(outputs.*member); });
}

/// Invalidates an operand if the signature marks it as an output.
template <class Argument>
void forget_output(const std::remove_cvref_t<Operand<Argument>>& operand) {
  if constexpr (is_out<Argument>) forget(operand);
}

/// Returns the bytes that are counted for an operand of an entry: the bytes of its tensors; 0 for other arguments. A
/// tensor that is both read and written counts once, except in an AdamwSlice, where it counts twice.
inline int64_t bytes_of(const Tensor& t) { return t.defined() ? t.bytes() : 0; }
inline int64_t bytes_of(std::span<const Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += bytes_of(t);
  return bytes;
}
inline int64_t bytes_of(std::span<const AdamwSlice> slices) {
  int64_t bytes = 0;
  for (const AdamwSlice& s : slices) {  // factor 2, because an update reads and writes main, m and v
    bytes += 2 * (bytes_of(s.main) + bytes_of(s.m) + bytes_of(s.v)) + bytes_of(s.gradient);
    // If main contains rests, the weights are also read. If main is the only copy, it is already counted.
    const bool separate = s.weights.storage() != s.main.storage();
    bytes += separate ? (has_rests(s) ? 2 : 1) * bytes_of(s.weights) : 0;
  }
  return bytes;
}
template <OperandStruct S>
int64_t bytes_of(const S& operands) {
  int64_t bytes = 0;
  for_each_tensor<S>([&](auto member) { bytes += bytes_of(operands.*member); });
  return bytes;
}
template <class T>
int64_t bytes_of(const T&) {
  return 0;
}

/// Appends the work of an entry to the log of t's run, if this run keeps a log.
template <auto Family, auto Entry>
void log_issue(const Tensor& t, const Stream& stream, const device::Work& work) {
  if (!t.defined() || t.device().has_memory()) return;
  constexpr EntryName name = name_of_entry<Family, Entry>;
  if (device::IssueLog* log = run_of(t).issues()) log->add(name.family, name.entry, lane_of(stream), work);
}

inline Tensor first_tensor(const Tensor& t) { return t; }
/// Returns moments, because their dtype decides the time for a byte of an update: bf16 moments are rounded at random.
inline Tensor first_tensor(std::span<const AdamwSlice> slices) { return slices.empty() ? Tensor{} : slices.front().m; }
template <OperandStruct S>
Tensor first_tensor(const S& operands) {
  Tensor any;
  for_each_tensor<S>([&](auto member) {
    if (!any.defined()) any = operands.*member;
  });
  return any;
}
/// Sets `found` to the first defined tensor of `operand` if `found` is undefined and the kernel writes `operand`.
template <class Argument>
void find_output(Tensor& found, const std::remove_cvref_t<Operand<Argument>>& operand) {
  if constexpr (is_out<Argument>)
    if (!found.defined()) found = first_tensor(operand);
}

template <auto Family, auto Entry, class>
struct NothingEntry;

template <auto Family, auto Entry, class F, class... Args>
struct NothingEntry<Family, Entry, Kernel<void(Stream&, Args...)> F::*> {
  static void launch(Stream& stream, Operand<Args>... operands) {
    (forget_output<Args>(operands), ...);
    Tensor written;
    (find_output<Args>(written, operands), ...);
    if (!written.defined()) return;
    log_issue<Family, Entry>(written, stream, device::MemoryWork{(bytes_of(operands) + ... + 0), written.dtype()});
  }
};

/// Wraps an entry that returns a property of a kernel to the host.
template <auto Family, auto Entry, class F, class Answer, class... Args>
struct NothingEntry<Family, Entry, Kernel<Answer(Args...)> F::*> {
  static Answer launch(Args... args) { return (cpu_table.*Family.*Entry)(args...); }
};

/// Wraps an entry. The wrapper computes no tensor; it invalidates the outputs and logs the bytes of the operands.
template <auto Family, auto Entry>
struct Nothing : NothingEntry<Family, Entry, decltype(Entry)> {};

/// Entries that do more than NothingEntry, or whose work is not the number of bytes of their operands.
extern const MatmulKernels matmul;
extern const GroupedMatmulKernels grouped_matmul;
extern const GroupedSwigluKernels grouped_swiglu;
extern const EmbeddingKernels embedding;
void attention_forward(Stream&, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape);
void attention_backward(Stream&, const AttentionGradients& gradients, const Tensor& dout, const AttentionSaved& saved,
                        const AttentionShape& shape);
extern const DeltaRuleKernels delta_rule;
void scatter(Stream&, const Tensor& out, const Tensor& x, const Tensor& index);
/// Logs a copy to or from offload memory as offload or restore, and any other copy as memory work.
void copy(Stream&, const Tensor& out, const Tensor& x);
void sgd(Stream&, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr, const Tensor& factor);
/// Logs the dtype of the gradients, not of the sum.
void squared_norm(Stream&, const Tensor& out, const Tensor& x, Write write);
void router_forward(Stream&, const Tensor& scores, const Tensor& ids, const Tensor& weights, const Tensor& logits,
                    const Tensor& bias, const RouterRule& rule);
void choose_tokens(Stream&, const Tensor& ids, const Tensor& scores, const Tensor& rows, int64_t scope_tokens,
                   double factor);
extern const CapacityKernels capacity;
extern const SlotKernels slots;

}  // namespace hexad::kernels::meta
