// Stages that are functions on a tape. Keeps a tape, and its replay, for every micro-batch in flight.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "parallel/pp/pipeline_runner.h"

namespace hexad::pp {

using autograd::Parameter;
using autograd::Tape;
using autograd::Value;

class TapeStages final : public StageWork {
 public:
  struct Output {
    Value activation;                 // for the next virtual stage; ignored in the last
    std::vector<Replay::Root> roots;  // losses of this stage, each with its gradient
  };
  struct Functions {
    std::function<std::unique_ptr<Tape>()> tape;
    /// Runs the forward of a chunk. `input` has no data in the first virtual stage.
    std::function<Output(Tape&, int chunk, int micro, const Value& input)> forward;
    /// Called after each tape's contribution to a parameter; may be empty. `last` is true if no chunk or micro-batch
    /// contributes to it again in this step. Two chunks may use a tied weight.
    std::function<void(Parameter&, bool last)> contributed;
  };

  TapeStages(const Schedule& schedule, int rank, std::function<Boundary(int micro)> boundary, Functions functions);

  Boundary boundary(int micro) const override { return boundary_(micro); }
  Tensor forward(int chunk, int micro, const Tensor& input) override;
  Tensor backward(int chunk, int micro, const Tensor& doutput, Replay::Weights weights) override;
  void weights(int chunk, int micro) override;

 private:
  // A micro-batch in a chunk, from its forward to its weight gradients. The output's data is not kept: the gradient has
  // its shape.
  struct InFlight {
    std::unique_ptr<Tape> tape;
    Value input;
    int32_t output = -1;
    std::vector<Replay::Root> roots;
    std::unique_ptr<Replay> replay;
  };
  using Key = std::pair<int, int>;  // chunk, micro-batch
  void contributed(Parameter& p);

  const StageMap stages_;
  const int rank_;
  std::function<Boundary(int)> boundary_;
  Functions functions_;
  std::map<Key, InFlight> in_flight_;
  std::map<Parameter*, int> pending_uses_;  // tapes that have not contributed yet
  int forwards_left_;
};

}  // namespace hexad::pp
