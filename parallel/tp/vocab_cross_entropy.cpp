#include <algorithm>
#include <deque>

#include "parallel/tp/split_vocabulary.h"

namespace hexad::tp {

using device::Category;
using namespace autograd;
using namespace base;
using namespace kernels;

namespace {

using kernels::SplitSoftmaxKernels;

class SplitLoss {
 public:
  SplitLoss(Tape& tape, const Tensor& x, Parameter& w, const Tensor& targets, const ProcessGroup& group,
            const CrossEntropyOptions& options)
      : tape_(tape),
        stream_(tape.stream),
        x_(x),
        w_(w),
        targets_(targets),
        group_(group),
        options_(options),
        part_(vocabulary_part("vocab_cross_entropy", w, group)),
        acc_(accumulator_dtype(x.dtype())),
        of_logits_(options.dtype_of_logits("vocab_cross_entropy", x.dtype())),
        losses_(Tensor::empty({x.dim(0)}, acc_, x.device())),
        dx_(tape.recording() ? Tensor::like(x) : Tensor{}) {}

  void run() {
    const int64_t rows = x_.dim(0);
    const int64_t step = options_.block_rows.value_or(kernels_.cross_entropy.block_rows(rows, part_.end - part_.begin));
    std::deque<Block> in_flight;
    for (int64_t begin = 0; begin < rows; begin += step) {
      in_flight.push_back(start(begin, std::min(rows, begin + step)));
      if (in_flight.size() == 1) continue;  // the next block's logits are computed meanwhile
      finish(in_flight.front());
      in_flight.pop_front();
    }
    for (const Block& b : in_flight) finish(b);
    for (const Event& event : summed_) stream_.wait(event);
  }

  const Tensor& losses() const { return losses_; }
  /// Returns the gradient of x; undefined if the tape records nothing.
  const Tensor& dx() const { return dx_; }

 private:
  struct Block {
    int64_t begin, end;
    Tensor logits, statistics;  // logits of this rank's columns; statistics of all ranks [ranks, statistics, rows]
    Event gathered;
  };

  Block start(int64_t begin, int64_t end) const {
    const int64_t rows = end - begin;
    Block b{begin,
            end,
            Tensor::empty({rows, part_.end - part_.begin}, of_logits_, x_.device()),
            Tensor::empty({group_.size(), SplitSoftmaxKernels::statistics_count, rows}, acc_, x_.device(),
                          Category::communication),
            {}};
    kernels_.matmul.forward(stream_, b.logits, x_.slice(0, begin, end), w_.use(stream_), Write::replace);
    if (options_.bias) kernels_.bias.forward(stream_, b.logits, options_.bias->use(stream_));
    const Tensor mine =
        Tensor::empty({SplitSoftmaxKernels::statistics_count, rows}, acc_, x_.device(), Category::communication);
    kernels_.split_softmax.start(stream_, mine, b.logits, targets_.slice(0, begin, end), part_.begin);
    b.gathered = group_.all_gather(b.statistics, mine, stream_);
    return b;
  }

  void finish(const Block& b) {
    stream_.wait(b.gathered);
    const bool train = tape_.recording();
    kernels_.split_softmax.finish(stream_, losses_.slice(0, b.begin, b.end), b.logits, b.statistics, group_.rank(),
                                  targets_.slice(0, b.begin, b.end), part_.begin,
                                  train ? options_.gradient_scale : 0.0);
    if (!train) return;
    // The matrix products below need both operands in the model's dtype.
    Tensor dlogits = b.logits;
    if (of_logits_ != x_.dtype()) {
      dlogits = Tensor::empty(b.logits.shape(), x_.dtype(), x_.device());
      kernels_.pointwise.copy(stream_, dlogits, b.logits);
    }
    const Tensor dx = dx_.slice(0, b.begin, b.end);
    kernels_.matmul.input_gradient(stream_, dx, dlogits, w_.use(stream_), Write::replace);
    summed_.push_back(group_.all_reduce(dx, comm::Reduce::sum, stream_));
    if (w_.trainable())
      kernels_.matmul.weight_gradient(stream_, w_.gradient(), dlogits, x_.slice(0, b.begin, b.end), w_.next_write());
    if (options_.bias && options_.bias->trainable())
      kernels_.bias.backward(stream_, options_.bias->gradient_to_add(stream_), dlogits);
  }

  Tape& tape_;
  Stream& stream_;
  const Tensor& x_;
  Parameter& w_;
  const Tensor& targets_;
  const ProcessGroup& group_;
  const CrossEntropyOptions& options_;
  const VocabularyPart part_;
  const KernelTable& kernels_ = kernels::kernels(x_.device());
  const Dtype acc_, of_logits_;
  const Tensor losses_, dx_;
  std::vector<Event> summed_;
};

Tensor total_of(const Tensor& losses, Stream& stream) {
  Tensor total = Tensor::empty({1}, losses.dtype(), losses.device());
  kernels::kernels(losses.device()).pointwise.sum(stream, total, losses, Write::replace);
  return total;
}

void check_loss(const Value& x, const Parameter& w, const Tensor& targets, const CrossEntropyOptions& options) {
  require(x.data.dim(1) == w.shape()[1] && targets.dim(0) == x.data.dim(0), "[vocab_cross_entropy] x is ", x.shape(),
          ", ", w.name(), " ", w.shape(), ", targets ", targets.shape(), "; expected [T, D], [V, D] and [T]");
  const Parameter* const bias = options.bias;
  require(!bias || (bias->shape() == Shape{w.shape()[0]} && bias->dtype() == accumulator_dtype(x.data.dtype())),
          "[vocab_cross_entropy] the bias is ", bias ? bias->shape() : Shape{}, " ",
          bias ? bias->dtype() : x.data.dtype(), ", expected [", w.shape()[0], "] ", accumulator_dtype(x.data.dtype()));
  require(options.block_rows.value_or(1) > 0, "[vocab_cross_entropy] block_rows is ", options.block_rows.value_or(1),
          ", expected at least 1");
  if (!targets.device().on_host()) return;  // framework/data has already checked the targets of a batch
  const int64_t vocabulary = w.global_shape()[0];
  const int32_t* target = targets.data<int32_t>();
  for (int64_t i = 0; i < targets.numel(); ++i)
    require(-1 <= target[i] && target[i] < vocabulary, "[vocab_cross_entropy] targets[", i, "] is ", target[i],
            "; expected -1 .. ", vocabulary - 1);
}

}  // namespace

Value vocab_cross_entropy(Tape& tape, const Value& x, Parameter& w, const Tensor& targets, const ProcessGroup& group,
                          const CrossEntropyOptions& options, Tensor* row_losses) {
  if (group.size() == 1) return linear_cross_entropy(tape, x, w, targets, options, row_losses);
  check_loss(x, w, targets, options);
  SplitLoss loss(tape, x.data, w, targets, group, options);
  loss.run();
  if (row_losses) *row_losses = loss.losses();
  std::vector<Parameter*> parameters{&w};
  if (options.bias) parameters.push_back(options.bias);
  return tape.record(
      "vocab_cross_entropy", total_of(loss.losses(), tape.stream), {x}, save(loss.dx()),
      [scale = options.gradient_scale](Backward& b, const Tensor& dout, const Saved& s) {
        if (dout.device().on_host()) {  // not checked on a device, because reading dout would block the host
          const double given = dout.dtype() == Dtype::f64 ? *dout.data<double>() : *dout.data<float>();
          require(dout.dtype() == Dtype::f64 ? given == scale : given == static_cast<float>(scale),
                  "[vocab_cross_entropy] the gradient of the loss is ", given, "; expected gradient_scale, which is ",
                  scale);
        }
        auto [dx] = s.get<1>();
        b.accumulate(0, dx);
      },
      {parameters, {}});
}

}  // namespace hexad::tp
