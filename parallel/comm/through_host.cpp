#include "parallel/comm/through_host.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::Lane;
using Kind = Operation::Kind;

// Flags: this rank sends `in`, sends `out`, receives `out`.
struct Directions {
  bool in_leaves, out_leaves, out_arrives;
};

Directions directions_of(const Operation& op, int rank) {
  const bool root = op.kind == Kind::broadcast && op.peer == rank;
  return {.in_leaves = op.in.defined(),
          .out_leaves = op.kind == Kind::all_reduce || root,
          .out_arrives = op.out.defined() && !root};
}

// Callback that launches the copy of the received data from the host to the device, and then completes `state`.
struct Return {
  Tensor from, to;  // undefined if nothing is received
  DeviceContext* context;
  std::shared_ptr<DeviceContext::Life> life;  // lifetime guard of the context, which may end before the operation
  std::shared_ptr<Event::State> state;
  std::vector<std::shared_ptr<const void>> owners;  // owners of the host memory

  void operator()(const Event& arrived) {
    std::shared_ptr<const device::DeviceMark> copied;
    std::exception_ptr error;
    try {
      arrived.wait();  // does not block; rethrows the error of the operation
      const auto bring_back = [&] {
        to.copy_from(from, context->stream(Lane::copy));
        copied = context->stream(Lane::copy).record_timed().launched();
      };
      if (to.defined() && !life->during(bring_back))
        fail(ExitCode::communication, "the device was closed before a result ", to.shape(), " ", to.dtype(),
             " of another rank arrived; expected every operation to end first");
    } catch (...) {
      error = std::current_exception();
      // Deliberately leaks the owners, because the transport may still write to this memory.
      static_cast<void>(new auto(std::move(owners)));
    }
    owners.clear();
    // Releases the tensors before waiting threads resume, because a thread that is the only owner of the result may
    // write to it in place.
    from = to = {};
    device::complete(state, error, copied);
  }
};

}  // namespace

Staged in_pinned_memory(const Operation& op) {
  Staged staged{op};
  for (Tensor* t : {&staged.op.in, &staged.op.out})
    if (t->defined()) *t = Tensor::pinned(t->shape(), t->dtype(), t->device());
  return staged;
}

Event through_host(Operation op, int rank, const StartOnHost& start, Stream& stream, const Stage& stage) {
  const Tensor& any = op.in.defined() ? op.in : op.out;
  if (!any.defined()) {
    stream.synchronize();
    device::InlineStream here;
    return start(std::move(op), here);
  }
  require(!any.device().on_host(), "[", name_of(op.kind), "] a tensor of ", any.bytes(),
          " bytes is in host memory, but the stream is of a device; expected tensors on the device");
  DeviceContext& context = any.device().context();
  const Directions d = directions_of(op, rank);
  auto [on_host, owners] = stage(op);
  if (d.in_leaves) on_host.in.copy_from(op.in, stream);
  if (d.out_leaves) on_host.out.copy_from(op.out, stream);
  Stream& host = context.host_stream();
  host.wait(stream.record());
  Return back{.from = d.out_arrives ? on_host.out : Tensor{},
              .to = d.out_arrives ? op.out : Tensor{},
              .context = &context,
              .life = context.life(),
              .state = Event::make_state(),
              .owners = std::move(owners)};
  const Event done(back.state);
  if (op.in.defined()) done.keep(op.in.storage());  // keeps the tensor alive until it has been copied
  const Event arrived = start(std::move(on_host), host);
  device::on_wait(back.state, [arrived] { arrived.expect(); });
  arrived.then([back, arrived]() mutable { back(arrived); });
  return done;
}

}  // namespace hexad::comm
