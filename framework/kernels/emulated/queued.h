// A CPU kernel as a kernel of the emulated device: launched now, run later, on memory that it does not own.
#pragma once

#include <span>
#include <tuple>
#include <vector>

#include "framework/device/emulated/emulated_queue.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::emulated {

/// Operands that a launch keeps until it runs: numbers, copies of host data, and views of tensors. A view keeps no
/// memory alive, as on a card. Host memory is rejected as an operand, because a card could not read it.
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

  /// Queues `kernel`, which will run with the number of threads it would have on this thread now.
  void run(std::function<void(Stream&)> kernel);

 private:
  device::emulated::EmulatedStream& stream_;
  std::vector<void*> blocks_;  // memory blocks of the operands
};

template <auto Family, auto Entry, class>
struct QueuedEntry;

template <auto Family, auto Entry, class F, class... Args>
struct QueuedEntry<Family, Entry, Kernel<void(Stream&, Args...)> F::*> {
  static void launch(Stream& stream, Operand<Args>... operands) {
    Launch launch(stream);
    // Braces make the calls of hold() run in the order of the operands.
    auto held = std::tuple{launch.hold(operands)...};
    launch.run([held = std::move(held)](Stream& here) {
      std::apply([&](const auto&... a) { (cpu_table.*Family.*Entry)(here, a...); }, held);
    });
  }
};

/// Wraps an entry that answers a question of the host about a kernel. It is called at once.
template <auto Family, auto Entry, class F, class Answer, class... Args>
struct QueuedEntry<Family, Entry, Kernel<Answer(Args...)> F::*> {
  static Answer launch(Args... args) { return (cpu_table.*Family.*Entry)(args...); }
};

/// Returns the entry of the CPU's table that a device without a card queues.
template <auto Family, auto Entry>
struct Queued : QueuedEntry<Family, Entry, decltype(Entry)> {};

}  // namespace hexad::kernels::emulated
