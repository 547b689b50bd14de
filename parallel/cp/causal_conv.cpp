#include "parallel/cp/delta_net_ops.h"
#include "parallel/cp/halves.h"
#include "parallel/cp/piece_chain.h"

namespace hexad::cp {

using namespace autograd;
using namespace base;
using kernels::CausalConvOperands;
namespace {

// Returns the last `count` rows of each sequence in a half x[B S, N], as a view [B, count, N]. B: number of sequences.
// S: length of a piece.
Tensor tails_of(const Tensor& x, const ContextSplit& split, int64_t count) {
  const int64_t length = split.piece_length();
  return x.reshape({split.sequences, length, x.dim(1)}).slice(1, length - count, length);
}

Tensor copied(const Tensor& t, Stream& stream) {
  const Tensor copy = Tensor::empty(t.shape(), t.dtype(), t.device());
  kernels::kernels(t.device()).pointwise.copy(stream, copy, t);
  return copy;
}

CausalConvOperands conv_operands(const Tensor& x, const Tensor& weight, const Tensor& before, const DeltaRows& rows,
                                 int half) {
  return {half_of(x, rows.split, half), weight, before, half_of(rows.first, rows.split, half)};
}

// Returns the last `count` rows before each half, [B, count, N]; undefined if the half begins its sequences.
Halves rows_before(const Tensor& x, int64_t count, const DeltaRows& rows, Stream& stream) {
  Halves before, tails;
  if (rows.split.ranks == 1) return before;
  PieceChain chain(rows.split, *rows.group, Along::later, stream);
  for (const int half : chain.halves()) {
    tails[half] = copied(tails_of(half_of(x, rows.split, half), rows.split, count), stream);
    chain.pass_on(half, tails[half]);
  }
  for (const int half : chain.halves())
    if (chain.has_source(half)) before[half] = chain.take(half, tails[half]);
  chain.finish();
  return before;
}

void backward_of_conv(Backward& b, const Tensor& dout, const Saved& saved, Parameter& weight, const DeltaRows& rows) {
  const auto kept = saved.get<3>();
  const Tensor& x = kept[0];
  const Halves before{kept[1], kept[2]};
  const auto& k = kernels::kernels(x.device());
  const HeldWeight held = weight.hold(b.stream);
  const Tensor w = held.on(b.stream), dx = Tensor::like(x);
  const Tensor dweight = Tensor::empty(w.shape(), accumulator_dtype(w.dtype()), w.device());
  k.pointwise.fill(b.stream, dweight, 0);
  PieceChain chain(rows.split, *rows.group, Along::earlier, b.stream);
  for (const int half : chain.halves()) {
    const Tensor dbefore = before[half].defined() ? Tensor::like(before[half]) : Tensor();
    k.causal_conv.backward(b.stream, {half_of(dx, rows.split, half), dweight, dbefore}, half_of(dout, rows.split, half),
                           conv_operands(x, w, before[half], rows, half), sequence_rows(rows.split, half));
    if (dbefore.defined()) chain.pass_on(half, dbefore);
  }
  for (const int half : chain.halves()) {
    if (!chain.has_source(half)) continue;
    const Tensor tails = tails_of(half_of(dx, rows.split, half), rows.split, w.dim(1) - 1);
    const Tensor sum = copied(tails, b.stream);
    k.pointwise.add(b.stream, sum, sum, chain.take(half, sum));
    k.pointwise.copy(b.stream, tails, sum);
  }
  chain.finish();
  b.accumulate(0, dx);
  b.save_for_weights(save(dweight));
}

}  // namespace

Value causal_conv(Tape& tape, const Value& x, Parameter& weight, const DeltaRows& rows) {
  const HeldWeight held = weight.hold(tape.stream);
  const Tensor w = held.on(tape.stream);
  require(x.data.rank() == 2 && w.rank() == 2 && x.data.dim(1) == w.dim(0) && x.data.dim(0) == rows.split.rows(),
          "[causal_conv] x is ", x.shape(), ", ", weight.name(), " ", w.shape(), "; expected [", rows.split.rows(),
          ", N] and [N, W]");
  require(rows.split.ranks == 1 || rows.split.piece_length() >= w.dim(1) - 1, "[causal_conv] a piece of ",
          rows.split.piece_length(), " tokens is shorter than the ", w.dim(1) - 1,
          " earlier tokens that a filter reads; expected pieces of at least ", w.dim(1) - 1,
          " tokens: use fewer ranks (parallel.cp)");
  if (rows.split.ranks > 1) connect_chain(*rows.group, x.device());
  const Halves before = rows_before(x.data, w.dim(1) - 1, rows, tape.stream);
  const Tensor out = Tensor::like(x.data);
  for (int half = 0; half < rows.split.halves(); ++half)
    kernels::kernels(x.device())
        .causal_conv.forward(tape.stream, half_of(out, rows.split, half),
                             conv_operands(x.data, w, before[half], rows, half), sequence_rows(rows.split, half));
  return tape.record(
      "causal_conv", out, {x}, save(x.data, before[0], before[1]),
      [&weight, rows](Backward& b, const Tensor& dout, const Saved& s) { backward_of_conv(b, dout, s, weight, rows); },
      {{&weight}, [&weight](Backward& b, const Tensor&, const Saved&) {
         const auto [dweight] = b.saved_by_pullback().get<1>();
         kernels::kernels(dweight.device())
             .bias.backward(b.stream, weight.gradient_to_add(b.stream).reshape({-1}), dweight.reshape({1, -1}));
       }});
}

}  // namespace hexad::cp
