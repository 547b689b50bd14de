#include "parallel/comm/through_host.h"

#include <memory>

namespace hexad::comm {
namespace {

using device::DeviceContext;
using device::Lane;
using Kind = Operation::Kind;

// What leaves this rank's device, and what comes to it.
struct Directions {
  bool in_leaves, out_leaves, out_arrives;
};

Directions directions_of(const Operation& op, int rank) {
  const bool root = op.kind == Kind::broadcast && op.peer == rank;
  return {.in_leaves = op.in.defined(),
          .out_leaves = op.kind == Kind::all_reduce || root,
          .out_arrives = op.out.defined() && !root};
}

// Completes an event when what arrived on the host is on its way to the device.
struct Return {
  Tensor from, to;  // undefined: nothing arrives
  DeviceContext* context;
  std::shared_ptr<DeviceContext::Life> life;  // of the context: others may come to the operation when it is gone
  std::shared_ptr<Event::State> state;

  void operator()(const Event& arrived) {
    std::shared_ptr<const device::DeviceMark> copied;
    std::exception_ptr error;
    try {
      arrived.wait();  // it is done: only its error is of interest
      const auto bring_back = [&] {
        to.copy_from(from, context->stream(Lane::copy));
        copied = context->stream(Lane::copy).record().launched();
      };
      if (to.defined() && !life->during(bring_back))
        fail(ExitCode::communication, "the device of a collective's result is gone");
    } catch (...) {
      error = std::current_exception();
    }
    from = to = {};  // before anyone goes on: who is then the sole owner of the result may write into it
    device::complete(state, error, copied);
  }
};

}  // namespace

Event through_host(Operation op, int rank, const StartOnHost& start, Stream& stream) {
  const Tensor& any = op.in.defined() ? op.in : op.out;
  if (!any.defined()) {
    stream.synchronize();
    device::InlineStream here;
    return start(std::move(op), here);
  }
  require(!any.device().on_host(), "[", name_of(op.kind), "] host tensors were given in the order of a device's queue");
  DeviceContext& context = any.device().context();
  const Directions d = directions_of(op, rank);
  const auto twin = [&](const Tensor& t, bool leaves) {
    if (!t.defined()) return t;
    const Tensor host = Tensor::pinned(t.shape(), t.dtype(), t.device());
    if (leaves) host.copy_from(t, stream);
    return host;
  };
  Operation on_host = op;
  on_host.in = twin(op.in, d.in_leaves);
  on_host.out = twin(op.out, d.out_leaves);
  Stream& host = context.host_stream();
  host.wait(stream.record());
  Return back{.from = d.out_arrives ? on_host.out : Tensor{},
              .to = d.out_arrives ? op.out : Tensor{},
              .context = &context,
              .life = context.life(),
              .state = Event::make_state()};
  const Event done(back.state);
  if (op.in.defined()) done.keep(op.in.storage());  // until it has been read
  const Event arrived = start(std::move(on_host), host);
  device::on_wait(back.state, [arrived] { arrived.expect(); });
  arrived.then([back, arrived]() mutable { back(arrived); });
  return done;
}

}  // namespace hexad::comm
