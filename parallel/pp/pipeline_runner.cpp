#include "parallel/pp/pipeline_runner.h"

#include <map>
#include <utility>

#include "parallel/pp/dependencies.h"

namespace hexad::pp {
namespace {

using base::require;
using device::Category;
using device::Device;

// Returns the name of an action's span in traces. In the trace, the number of the micro-batch follows the name.
std::string_view span_name(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::forward:
      return "forward, micro-batch";
    case Action::Kind::backward:
    case Action::Kind::backward_input:
      return "backward, micro-batch";
    case Action::Kind::backward_weight:
      return "weight gradients, micro-batch";
  }
  return "";
}

// Returns the routes between adjacent stages, in both directions.
std::vector<comm::Route> routes(const StageMap& stages) {
  std::vector<comm::Route> all;
  for (int stage = 0; stage < stages.last(); ++stage) {
    const int here = stages.place(stage).rank, next = stages.place(stage + 1).rank;
    if (here != next) all.insert(all.end(), {{here, next}, {next, here}});
  }
  return all;
}

class Runner {
 public:
  Runner(const CheckedSchedule& program, const comm::ProcessGroup& pp, StageWork& work, Device device,
         schedule::Fibers* fibers)
      : schedule_(program.schedule),
        transfers_(program.transfers),
        pp_(pp),
        work_(work),
        device_(device),
        fibers_(fibers),
        stream_(device.context().compute()),
        spans_(device.context().spans()) {
    const device::Span span(spans_, "pipeline: check");
    require(schedule_.stages.ranks == pp.size(), "[pp] the schedule is for ", schedule_.stages.ranks,
            " ranks, but the group has ", pp.size(), "; expected equal numbers");
    require(program.merge == (fibers != nullptr),
            "[pp] the schedule was checked for pairs of a forward and a backward that run ",
            program.merge ? "as one action" : "one after the other", ", but `fibers` is ", fibers ? "given" : "null",
            "; expected fibers exactly if such pairs run as one action");
    connect(pp, schedule_.stages, device);
  }

  void run() {
    const auto& actions = schedule_.ranks[pp_.rank()];
    for (size_t i = 0, next = 0; i < actions.size(); i = next) {
      const bool pair = fibers_ && actions[i].merged;
      next = i + (pair ? 2 : 1);
      const Transfers::Before& before = transfers_.ranks[pp_.rank()][i];
      for (const Message& message : before.receives) post_receive(message);
      Tensor in = input(actions[i]), second_in = pair ? input(actions[i + 1]) : Tensor();
      for (const Message& message : before.frees) kept_.erase(message);
      if (pair)
        act_as_fibers(actions[i], std::move(in), actions[i + 1], std::move(second_in));
      else
        hand_on(actions[i], compute(actions[i], std::exchange(in, {})));
    }
    if (sends_.empty()) return;
    const device::Span span(spans_, "pp: sends");
    for (const Event& event : sends_) stream_.wait(event);
  }

 private:
  struct Arrival {
    Tensor data;
    Event event;
  };

  Tensor input(const Action& action) { return take(needed(schedule_.stages, pp_.rank(), action)); }

  Tensor compute(const Action& action, const Tensor& in) {
    const device::Span span(spans_, span_name(action.kind), std::to_string(action.micro));
    switch (action.kind) {
      case Action::Kind::forward:
        return work_.forward(action.local_stage, action.micro, in);
      case Action::Kind::backward:
        return work_.backward(action.local_stage, action.micro, in, Replay::Weights::at_once);
      case Action::Kind::backward_input:
        return work_.backward(action.local_stage, action.micro, in, Replay::Weights::delayed);
      case Action::Kind::backward_weight:
        work_.weights(action.local_stage, action.micro);
    }
    return {};
  }

  void hand_on(const Action& action, const Tensor& out) {
    if (const auto message = made(schedule_.stages, pp_.rank(), action)) give(*message, out);
  }

  // Runs a merged pair. Starts with the backward, as in DualPipe. The rows of the forward are then in flight to the
  // experts during the longest computation between two yields: the experts' backward with their weight gradients. The
  // result of the forward is sent when the forward ends, and the result of the backward when both actions have ended. A
  // peer that receives both results receives them in this order. Neither result is freed before the pair ends.
  void act_as_fibers(const Action& forward, Tensor x, const Action& backward, Tensor dy) {
    Tensor y, dx;
    fibers_->run([&] { dx = compute(backward, std::exchange(dy, {})); },
                 [&] {
                   y = compute(forward, std::exchange(x, {}));
                   hand_on(forward, y);
                 });
    hand_on(backward, dx);
  }

  void post_receive(const Message& message) {
    const device::Span span(spans_, "pp: post receive, micro-batch", std::to_string(message.micro));
    const auto boundary = work_.boundary(message.micro);
    const Tensor data = Tensor::empty(boundary.shape, boundary.dtype, device_, Category::communication);
    here_[message] = {data, pp_.receive(data, sender(schedule_.stages, message), stream_)};
  }

  Tensor take(const std::optional<Message>& message) {
    if (!message) return {};
    auto arrival = here_.extract(*message);
    require(!arrival.empty(), "[pp] rank ", pp_.rank(), " needs a tensor of micro-batch ", message->micro,
            " that it has not made yet; expected an earlier action that makes it");
    if (sender(schedule_.stages, *message) != pp_.rank()) {
      const device::Span span(spans_, "pp: receive, micro-batch", std::to_string(message->micro));
      stream_.wait(arrival.mapped().event);
    }
    return std::move(arrival.mapped().data);
  }

  void give(const Message& message, const Tensor& data) {
    const auto boundary = work_.boundary(message.micro);
    require(data.defined() && data.shape() == boundary.shape && data.dtype() == boundary.dtype, "[pp] the ",
            message.forward ? "input" : "output gradient", " of virtual stage ", message.stage, ", micro-batch ",
            message.micro, ", is ", data.shape(), " ", data.dtype(), "; expected ", boundary.shape, " ",
            boundary.dtype);
    const int to = receiver(schedule_.stages, message);
    if (to == pp_.rank()) {
      here_[message] = {data, {}};
      return;
    }
    const device::Span span(spans_, "pp: send, micro-batch", std::to_string(message.micro));
    sends_.push_back(pp_.send(data, to, stream_));
    if (!transfers_.at_once) kept_[message] = data;
  }

  const Schedule& schedule_;
  const Transfers& transfers_;
  const comm::ProcessGroup& pp_;
  StageWork& work_;
  const Device device_;
  schedule::Fibers* const fibers_;
  Stream& stream_;
  device::SpanLog& spans_;
  std::map<Message, Arrival> here_;  // tensors that this rank has made for itself, or whose receive is posted
  std::map<Message, Tensor> kept_;   // sent tensors that must not be freed yet
  std::vector<Event> sends_;
};

}  // namespace

void connect(const comm::ProcessGroup& pp, const StageMap& stages, Device device) {
  pp.connect_routes(routes(stages), device);
}

void run(const CheckedSchedule& schedule, const comm::ProcessGroup& pp, StageWork& work, Device device,
         schedule::Fibers* fibers) {
  Runner(schedule, pp, work, device, fibers).run();
}

void run(const Schedule& schedule, const comm::ProcessGroup& pp, StageWork& work, Device device,
         schedule::Fibers* fibers) {
  run(checked(schedule, fibers != nullptr), pp, work, device, fibers);
}

}  // namespace hexad::pp
