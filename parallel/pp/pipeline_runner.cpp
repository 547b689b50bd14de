#include "parallel/pp/pipeline_runner.h"

#include <map>
#include <utility>

#include "parallel/pp/dependencies.h"
#include "parallel/pp/program_check.h"

namespace hexad::pp {
namespace {

using base::require;
using device::Category;
using device::Device;
using device::Event;
using device::Stream;

// Returns the name of an action's span, without its micro-batch.
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

// Returns the routes between neighbouring stages, in both directions.
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
  Runner(const Schedule& schedule, const comm::ProcessGroup& pp, StageWork& work, Device device,
         schedule::Fibers* fibers)
      : schedule_(schedule),
        pp_(pp),
        work_(work),
        device_(device),
        fibers_(fibers),
        stream_(device.context().compute()),
        spans_(device.context().spans()) {
    const device::Span span(spans_, "pipeline: check");
    require(schedule.stages.ranks == pp.size(), "[pp] a schedule of ", schedule.stages.ranks, " ranks in a group of ",
            pp.size());
    check(schedule);
    for (int peer = 0; peer < pp.size(); ++peer) inboxes_.push_back({sent(schedule, peer, pp.rank())});
    connect(pp, schedule.stages, device);
  }

  void run() {
    const auto& actions = schedule_.ranks[pp_.rank()];
    for (size_t i = 0, next = 0; i < actions.size(); i = next) {
      const bool pair = fibers_ && actions[i].merged;
      next = i + (pair ? 2 : 1);
      for (size_t ahead = i; ahead < std::min(next + 1, actions.size()); ++ahead) post_receives(actions[ahead]);
      if (pair)
        act_as_fibers(actions[i], actions[i + 1]);
      else
        hand_on(actions[i], compute(actions[i], input(actions[i])));
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
  // Messages that a peer sends to this rank, in the peer's order, and the number of them for which a receive is posted.
  struct Inbox {
    std::vector<Message> messages;
    size_t posted = 0;
  };

  Tensor input(const Action& action) { return take(needed(schedule_.stages, pp_.rank(), action)); }

  Tensor compute(const Action& action, const Tensor& in) {
    const device::Span span(spans_, span_name(action.kind), std::to_string(action.micro));
    switch (action.kind) {
      case Action::Kind::forward:
        return work_.forward(action.chunk, action.micro, in);
      case Action::Kind::backward:
        return work_.backward(action.chunk, action.micro, in, Replay::Weights::at_once);
      case Action::Kind::backward_input:
        return work_.backward(action.chunk, action.micro, in, Replay::Weights::delayed);
      case Action::Kind::backward_weight:
        work_.weights(action.chunk, action.micro);
    }
    return {};
  }

  void hand_on(const Action& action, const Tensor& out) {
    if (const auto message = made(schedule_.stages, pp_.rank(), action)) give(*message, out);
  }

  // Begins with the backward, as in DualPipe. The forward's rows then travel to the experts during the backward of the
  // experts and their weight gradients, the longest computation between two yields. The forward's result is sent when
  // the forward ends, the backward's result when both have ended. A peer that gets both receives them in this order.
  void act_as_fibers(const Action& forward, const Action& backward) {
    Tensor x = input(forward), dy = input(backward), dx;
    fibers_->run([&] { dx = compute(backward, std::exchange(dy, {})); },
                 [&] { hand_on(forward, compute(forward, std::exchange(x, {}))); });
    hand_on(backward, dx);
  }

  // Messages of a pair of ranks match only by order, so a receive is posted after the receives of all earlier messages
  // of the peer.
  void post_receives(const Action& action) {
    const auto message = needed(schedule_.stages, pp_.rank(), action);
    if (!message) return;
    const int peer = producer(*message);
    Inbox& inbox = inboxes_[peer];
    if (peer == pp_.rank() || here_.contains(*message)) return;
    const device::Span span(spans_, "pp: post receive, micro-batch", std::to_string(message->micro));
    do {
      require(inbox.posted < inbox.messages.size(), "[pp] rank ", peer, " never sends the tensor that ",
              to_string(action), " of rank ", pp_.rank(), " needs");
      const Message& next = inbox.messages[inbox.posted++];
      const auto boundary = work_.boundary(next.micro);
      const Tensor data = Tensor::empty(boundary.shape, boundary.dtype, device_, Category::communication);
      here_[next] = {data, pp_.receive(data, peer, stream_)};
    } while (!here_.contains(*message));
  }

  int producer(const Message& message) const {
    return schedule_.stages.place(message.forward ? message.stage - 1 : message.stage + 1).rank;
  }

  Tensor take(const std::optional<Message>& message) {
    if (!message) return {};
    auto arrival = here_.extract(*message);
    require(!arrival.empty(), "[pp] rank ", pp_.rank(), " needs a tensor of micro-batch ", message->micro,
            " that it has not made yet");
    if (producer(*message) != pp_.rank()) {
      const device::Span span(spans_, "pp: receive, micro-batch", std::to_string(message->micro));
      stream_.wait(arrival.mapped().event);
    }
    return std::move(arrival.mapped().data);
  }

  void give(const Message& message, const Tensor& data) {
    const auto boundary = work_.boundary(message.micro);
    require(data.defined() && data.shape() == boundary.shape && data.dtype() == boundary.dtype, "[pp] the ",
            message.forward ? "input" : "output gradient", " of virtual stage ", message.stage, " should be ",
            boundary.shape, " ", boundary.dtype, ", but is ", data.shape(), " ", data.dtype());
    const int to = schedule_.stages.place(message.stage).rank;
    if (to == pp_.rank()) {
      here_[message] = {data, {}};
      return;
    }
    const device::Span span(spans_, "pp: send, micro-batch", std::to_string(message.micro));
    sends_.push_back(pp_.send(data, to, stream_));
  }

  const Schedule& schedule_;
  const comm::ProcessGroup& pp_;
  StageWork& work_;
  const Device device_;
  schedule::Fibers* const fibers_;
  Stream& stream_;
  device::SpanLog& spans_;
  std::vector<Inbox> inboxes_;       // by peer
  std::map<Message, Arrival> here_;  // messages that have arrived, are expected, or were made on this rank
  std::vector<Event> sends_;
};

}  // namespace

void connect(const comm::ProcessGroup& pp, const StageMap& stages, Device device) {
  pp.connect_routes(routes(stages), device);
}

void run(const Schedule& schedule, const comm::ProcessGroup& pp, StageWork& work, Device device,
         schedule::Fibers* fibers) {
  Runner(schedule, pp, work, device, fibers).run();
}

}  // namespace hexad::pp
