// Runs one rank's actions of a schedule.
#pragma once

#include "framework/autograd/tape.h"
#include "framework/schedule/fibers.h"
#include "parallel/comm/process_group.h"
#include "parallel/pp/checked_schedules.h"
#include "parallel/pp/pp_names.h"

namespace hexad::pp {

/// Computation of a rank's virtual stages. All tensors between virtual stages are contiguous, with the shape and dtype
/// of boundary(micro). Implementations may drop their handles of these tensors. They must not overwrite the tensors,
/// which may still be in flight to another rank. run() frees an input when its action ends. It frees a sent result when
/// the action ends, or after the peer has posted the receive (transfers.h).
class StageWork {
 public:
  struct Boundary {
    Shape shape;
    Dtype dtype;
  };

  virtual ~StageWork() = default;
  virtual Boundary boundary(int micro) const = 0;
  /// Returns the output of a virtual stage. `input` is undefined in the first virtual stage. The result of the last
  /// virtual stage is ignored.
  virtual Tensor forward(int local_stage, int micro, const Tensor& input) = 0;
  /// Returns the gradient of the input of forward(). Also computes the gradients of the weights if `weights` does not
  /// delay them. `doutput` is undefined in the last virtual stage. The result of the first virtual stage is ignored.
  virtual Tensor backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights weights) = 0;
  /// Computes the gradients of the weights that an earlier backward has delayed.
  virtual void weights(int local_stage, int micro) = 0;
};

/// Connects the ranks of adjacent stages for messages in both directions. Without this call, the first run() connects
/// the ranks. Collective. Throws Error(resource) like ProcessGroup::connect().
void connect(const comm::ProcessGroup& pp, const StageMap& stages, device::Device device);

/// Runs the actions of rank pp.rank(). All ranks of `pp` must pass the same schedule. Receives are posted in the order
/// in which the peer sends, most of them one action before they are needed (transfers.h). Sends do not block the rank.
/// Between two virtual stages on the same rank, no message is sent: the tensor is passed on. Later work on the compute
/// lane waits until all messages of this rank have been sent. The calling thread also waits until all messages have
/// been sent if host threads send them.
///
/// The two actions of a merged pair alternate if `fibers` is not null, and a pair begins when both inputs have arrived.
/// All actions run one after the other if `fibers` is null. `fibers` must be null exactly if `schedule.merge` is false.
void run(const CheckedSchedule& schedule, const comm::ProcessGroup& pp, StageWork& work, device::Device device,
         schedule::Fibers* fibers = nullptr);
/// Checks the schedule and runs it. Every rank throws std::logic_error before it computes or sends anything if check()
/// rejects the schedule.
void run(const Schedule& schedule, const comm::ProcessGroup& pp, StageWork& work, device::Device device,
         schedule::Fibers* fibers = nullptr);

}  // namespace hexad::pp
