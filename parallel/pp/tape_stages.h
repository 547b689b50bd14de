// Stages whose work is recorded on tapes. Each micro-batch in flight in a virtual stage has a tape and, from its
// backward on, a replay of this tape.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "parallel/pp/pipeline_runner.h"
#include "parallel/pp/pp_names.h"

namespace hexad::pp {

class TapeStages final : public StageWork {
 public:
  struct Output {
    Value activation;                 // output for the next virtual stage; ignored in the last virtual stage
    std::vector<Replay::Root> roots;  // losses of this stage, and their gradients
  };
  struct Functions {
    std::function<std::unique_ptr<Tape>()> tape;
    /// Runs the forward of a virtual stage. In the first virtual stage, the data of `input` is undefined.
    std::function<Output(Tape&, int local_stage, int micro, const Value& input)> forward;
    /// Called before each backward; may be empty.
    std::function<void()> before_backward{};
    /// Called when a tape has made its contribution to a parameter; may be empty. `last` is true if no other virtual
    /// stage or micro-batch will contribute in this step. Two virtual stages may contribute to a weight that they
    /// share.
    std::function<void(Parameter&, bool last)> contributed;
  };

  TapeStages(const Schedule& schedule, int rank, std::function<Boundary(int micro)> boundary, Functions functions);

  Boundary boundary(int micro) const override { return boundary_(micro); }
  Tensor forward(int local_stage, int micro, const Tensor& input) override;
  Tensor backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights weights) override;
  void weights(int local_stage, int micro) override;
  /// Returns the parameters that a micro-batch in flight uses in a virtual stage, each once.
  std::vector<Parameter*> used_parameters(int local_stage, int micro) const;

  /// Counts a forward that is not run, and its use of `parameters`. The backward of the micro-batch in this virtual
  /// stage must not be run either. leave_out_contribution() must be called once for each of the parameters.
  void leave_out_forward(std::span<Parameter* const> parameters);
  /// Reports a contribution to the gradient of `p` by a backward that is not run.
  void leave_out_contribution(Parameter& p) { contributed(p); }

 private:
  // A micro-batch in a virtual stage, from its forward to its weight gradients. The data of the output is not kept:
  // only its shape is needed, and the gradient of the output has this shape.
  struct InFlight {
    std::unique_ptr<Tape> tape;
    Value input;
    int32_t output = -1;
    std::vector<Replay::Root> roots;
    std::unique_ptr<Replay> replay;
  };
  using Key = std::pair<int, int>;  // local stage and micro-batch
  void contributed(Parameter& p);

  const StageMap stages_;
  const int rank_;
  std::function<Boundary(int)> boundary_;
  Functions functions_;
  std::map<Key, InFlight> in_flight_;
  std::map<Parameter*, int> pending_uses_;  // number of tapes that have not contributed to each parameter yet
  int forwards_left_;
};

}  // namespace hexad::pp
