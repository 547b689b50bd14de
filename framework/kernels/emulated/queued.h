// CPU kernels as kernels of the emulated device. A launch queues the kernel. The kernel runs later, on memory that it
// does not own.
#pragma once

#include <span>
#include <tuple>
#include <vector>

#include "framework/device/emulated/emulated_queue.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::emulated {

/// Operands that a launch keeps until the kernel runs: numbers, copies of host data, and views of tensors. As on a
/// card, a view does not keep memory alive. Tensors in host memory are rejected, because a card could not read them.
class Launch {
 public:
  explicit Launch(Stream& stream) : stream_(device::emulated::emulated_stream(stream)) {}

  Tensor hold(const Tensor& t);
  std::vector<Tensor> hold(std::span<const Tensor> tensors);
  std::vector<AdamwSlice> hold(std::span<const AdamwSlice> slices);
  struct HeldOffsets {
    std::vector<int64_t> host;
    GroupOffsets offsets;
    operator GroupOffsets() const {
      GroupOffsets o = offsets;
      o.host = host;
      return o;
    }
  };
  HeldOffsets hold(const GroupOffsets& offsets);
  template <OperandStruct S>
  S hold(const S& operands) {
    S held;
    for_each_tensor<S>([&](auto member) { held.*member = hold(operands.*member); });
    return held;
  }
  template <class T>
  T hold(const T& value) {
    return value;
  }

  /// Queues `kernel`. The kernel runs with the number of threads that this thread's kernels may use at the time of this
  /// call.
  void run(std::function<void(Stream&)> kernel);

 private:
  device::emulated::EmulatedStream& stream_;
  std::vector<void*> blocks_;  // blocks of memory that the operands use
};

template <auto Family, auto Entry, class>
struct QueuedEntry;

template <auto Family, auto Entry, class F, class... Args>
struct QueuedEntry<Family, Entry, Kernel<void(Stream&, Args...)> F::*> {
  static void launch(Stream& stream, Operand<Args>... operands) {
    Launch launch(stream);
    // Braced initialisation calls hold() in the order of the operands. With parentheses, the order would be
    // unspecified.
    auto held = std::tuple{launch.hold(operands)...};
    launch.run([held = std::move(held)](Stream& here) {
      std::apply([&](const auto&... a) { (cpu_table.*Family.*Entry)(here, a...); }, held);
    });
  }
};

/// Wraps an entry that returns a property of a kernel to the host. The entry is called immediately.
template <auto Family, auto Entry, class F, class Answer, class... Args>
struct QueuedEntry<Family, Entry, Kernel<Answer(Args...)> F::*> {
  static Answer launch(Args... args) { return (cpu_table.*Family.*Entry)(args...); }
};

/// Wraps an entry of the CPU's table for the emulated device.
template <auto Family, auto Entry>
struct Queued : QueuedEntry<Family, Entry, decltype(Entry)> {};

}  // namespace hexad::kernels::emulated
