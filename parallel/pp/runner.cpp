#include "parallel/pp/runner.h"

#include <map>

#include "parallel/pp/dependencies.h"

namespace hexad::pp {
namespace {

using base::require;
using comm::Event;
using tensor::Category;
using tensor::Device;
using tensor::Stream;

class Runner {
 public:
  Runner(const Schedule& schedule, const comm::ProcessGroup& pp, StageWork& work, Device device)
      : schedule_(schedule), pp_(pp), work_(work), device_(device), stream_(device.context().compute()) {
    require(schedule.stages.ranks == pp.size(), "[pp] a schedule of ", schedule.stages.ranks, " ranks in a group of ",
            pp.size());
    for (int peer = 0; peer < pp.size(); ++peer) lines_.push_back({sent(schedule, peer, pp.rank())});
  }

  void run() {
    const auto& actions = schedule_.ranks[static_cast<size_t>(pp_.rank())];
    for (size_t i = 0; i < actions.size(); ++i) {
      for (size_t ahead = i; ahead < std::min(i + 2, actions.size()); ++ahead) post_receives(actions[ahead]);
      act(actions[i]);
    }
    for (const Event& event : sends_) event.wait();
  }

 private:
  struct Arrival {
    Tensor data;
    Event event;
  };
  // What a peer sends to this rank, in its order, and how many of them have a receive.
  struct Line {
    std::vector<Parcel> parcels;
    size_t posted = 0;
  };

  void act(const Action& action) {
    const auto in = needed(schedule_.stages, pp_.rank(), action);
    Tensor out;
    switch (action.kind) {
      case Action::Kind::forward:
        out = work_.forward(action.chunk, action.micro, take(in));
        break;
      case Action::Kind::backward:
        out = work_.backward(action.chunk, action.micro, take(in), Replay::Weights::at_once);
        break;
      case Action::Kind::backward_input:
        out = work_.backward(action.chunk, action.micro, take(in), Replay::Weights::delayed);
        break;
      case Action::Kind::backward_weight:
        work_.weights(action.chunk, action.micro);
        break;
    }
    if (const auto parcel = made(schedule_.stages, pp_.rank(), action)) give(*parcel, out);
  }

  // Messages of a pair match by order alone, so a receive comes after those of all that the peer sends before.
  void post_receives(const Action& action) {
    const auto parcel = needed(schedule_.stages, pp_.rank(), action);
    if (!parcel) return;
    const int peer = producer(*parcel);
    Line& line = lines_[static_cast<size_t>(peer)];
    if (peer == pp_.rank() || here_.contains(*parcel)) return;
    do {
      require(line.posted < line.parcels.size(), "[pp] rank ", peer, " never sends what ", to_string(action),
              " of rank ", pp_.rank(), " needs");
      const Parcel& next = line.parcels[line.posted++];
      const auto boundary = work_.boundary(next.micro);
      const Tensor data = Tensor::empty(boundary.shape, boundary.dtype, device_, Category::communication);
      here_[next] = {data, pp_.receive(data, peer, stream_)};
    } while (!here_.contains(*parcel));
  }

  int producer(const Parcel& parcel) const {
    return schedule_.stages.place(parcel.forward ? parcel.stage - 1 : parcel.stage + 1).rank;
  }

  Tensor take(const std::optional<Parcel>& parcel) {
    if (!parcel) return {};
    auto arrival = here_.extract(*parcel);
    require(!arrival.empty(), "[pp] rank ", pp_.rank(), " needs a tensor of micro-batch ", parcel->micro,
            " that it has not made yet");
    stream_.wait(arrival.mapped().event);
    return std::move(arrival.mapped().data);
  }

  void give(const Parcel& parcel, const Tensor& data) {
    const auto boundary = work_.boundary(parcel.micro);
    require(data.defined() && data.shape() == boundary.shape && data.dtype() == boundary.dtype, "[pp] the ",
            parcel.forward ? "input" : "output gradient", " of virtual stage ", parcel.stage, " should be ",
            boundary.shape, " ", boundary.dtype, ", but is ", data.shape(), " ", data.dtype());
    const int to = schedule_.stages.place(parcel.stage).rank;
    if (to == pp_.rank())
      here_[parcel] = {data, {}};
    else
      sends_.push_back(pp_.send(data, to, stream_));
  }

  const Schedule& schedule_;
  const comm::ProcessGroup& pp_;
  StageWork& work_;
  const Device device_;
  Stream& stream_;
  std::vector<Line> lines_;         // by peer
  std::map<Parcel, Arrival> here_;  // has arrived, will arrive, or was made here
  std::vector<Event> sends_;        // each owns its tensor until it has left
};

}  // namespace

void run(const Schedule& schedule, const comm::ProcessGroup& pp, StageWork& work, Device device) {
  Runner(schedule, pp, work, device).run();
}

}  // namespace hexad::pp
