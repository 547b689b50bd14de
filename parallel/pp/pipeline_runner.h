// Runs one rank's part of any schedule.
#pragma once

#include "framework/autograd/tape.h"
#include "framework/schedule/fibers.h"
#include "parallel/comm/process_group.h"
#include "parallel/pp/schedule.h"

namespace hexad::pp {

using autograd::Replay;
using base::Dtype;
using base::Shape;
using tensor::Tensor;

/// Computation of a rank's chunks. All tensors between virtual stages are contiguous and have the shape and dtype of
/// boundary(micro). They may be in flight to another rank when a call returns, so nothing may overwrite them. The
/// stages may drop them. run() frees an input when its action ends. It frees a result that it sends when its action
/// ends, or once the peer has posted the receive (transfers.h).
class StageWork {
 public:
  struct Boundary {
    Shape shape;
    Dtype dtype;
  };

  virtual ~StageWork() = default;
  virtual Boundary boundary(int micro) const = 0;
  /// Returns the output of a chunk. `input` is undefined in the first virtual stage; the result is ignored in the last.
  virtual Tensor forward(int chunk, int micro, const Tensor& input) = 0;
  /// Returns the gradient of the forward's input. Unless `weights` is delayed, also computes the gradients of the
  /// weights. `doutput` is undefined in the last virtual stage; the result is ignored in the first.
  virtual Tensor backward(int chunk, int micro, const Tensor& doutput, Replay::Weights weights) = 0;
  /// Computes the gradients of the weights that a backward delayed.
  virtual void weights(int chunk, int micro) = 0;
};

/// Connects the ranks of neighbouring stages for messages in both directions. Otherwise the first run() does so.
/// Collective. Throws Error(resource) like ProcessGroup::connect().
void connect(const comm::ProcessGroup& pp, const StageMap& stages, device::Device device);

/// Runs the actions of rank pp.rank(). All ranks of `pp` must have the same schedule. If check() rejects the schedule,
/// every rank throws std::logic_error before anything is computed or sent. Receives are posted in the order in which
/// the peer sends, one action ahead of need; sends do not block the rank. Between two chunks of one rank the tensor
/// itself is passed on. Later work of the compute lane runs after everything that this rank sent has left. The calling
/// thread waits for that only if host threads send.
///
/// `fibers` (may be null): the two actions of a merged pair alternate. A pair begins when both inputs have arrived. All
/// other actions, and without fibers all actions, run one after the other.
void run(const Schedule& schedule, const comm::ProcessGroup& pp, StageWork& work, device::Device device,
         schedule::Fibers* fibers = nullptr);

}  // namespace hexad::pp
