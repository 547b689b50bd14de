#include <utility>

#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

DeltaGates delta_gates(Tape& tape, const Value& decay, const Value& write, Parameter& log_rate, Parameter& shift) {
  require(decay.data.rank() == 2 && decay.shape() == write.shape() && decay.data.dtype() == write.data.dtype(),
          "[delta_gates] decay is ", decay.shape(), " ", decay.data.dtype(), ", write ", write.shape(), " ",
          write.data.dtype(), "; expected equal shapes [T, H] and equal dtypes");
  const kernels::KernelTable& k = kernels::kernels(decay.device());
  const Tensor log_decay = Tensor::empty(decay.shape(), accumulator_dtype(decay.data.dtype()), decay.device());
  const Tensor strength = Tensor::like(log_decay);
  const HeldWeight held_rate = log_rate.hold(tape.stream), held_shift = shift.hold(tape.stream);
  k.delta_gate.forward(tape.stream, log_decay, strength,
                       {decay.data, write.data, held_rate.on(tape.stream), held_shift.on(tape.stream)});
  const Value inputs[] = {decay, write};
  const std::vector<Value> values = tape.record_many(
      "delta_gates", {log_decay, strength}, inputs, save(decay.data, write.data),
      [&k, &log_rate, &shift](Backward& b, const Tensor&, const Saved& s) {
        const auto logits = s.get<2>();
        const Tensor &decay_logits = logits[0], &write_logits = logits[1];
        const auto sums = [&] {
          return Tensor::empty(decay_logits.shape(), accumulator_dtype(decay_logits.dtype()), decay_logits.device());
        };
        const auto gradient_of = [&](size_t output) {
          const Tensor& gradient = b.output_gradient(output);
          if (gradient.defined()) return gradient;
          const Tensor none = sums();
          k.pointwise.fill(b.stream, none, 0);
          return none;
        };
        const Tensor dlog_decay = gradient_of(0), dstrength = gradient_of(1);
        const Tensor ddecay = Tensor::like(decay_logits), dwrite = Tensor::like(write_logits);
        const Tensor rates = sums(), shifts = sums();
        // Holds the weights in the reverse order of forward, because backward needs the weight buckets in reverse
        // order.
        const HeldWeight shift_again = shift.hold(b.stream), rate_again = log_rate.hold(b.stream);
        k.delta_gate.backward(b.stream, {ddecay, dwrite, rates, shifts}, dlog_decay, dstrength,
                              {decay_logits, write_logits, rate_again.on(b.stream), shift_again.on(b.stream)});
        b.accumulate(0, ddecay), b.accumulate(1, dwrite);
        b.save_for_weights(save(rates, shifts));
      },
      {{&log_rate, &shift}, [&k, &log_rate, &shift](Backward& b, const Tensor&, const Saved&) {
         const auto [rates, shifts] = b.saved_by_pullback().get<2>();
         if (log_rate.trainable()) k.bias.backward(b.stream, log_rate.gradient_to_add(b.stream), rates);
         if (shift.trainable()) k.bias.backward(b.stream, shift.gradient_to_add(b.stream), shifts);
       }});
  return {.log_decay = values[0], .strength = values[1]};
}

}  // namespace hexad::autograd
