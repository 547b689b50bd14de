#include "parallel/comm/nccl/nccl_group.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "framework/base/ordinal.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/tensor/device_access.h"
#include "parallel/comm/connection_bytes.h"
#include "parallel/comm/nccl/connecting.h"
#include "parallel/comm/nccl/message_pieces.h"
#include "parallel/comm/nccl/nccl_windows.h"

namespace hexad::comm::nccl {

using namespace base;
using namespace tensor;
namespace {

using Kind = Operation::Kind;

ncclDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return ncclFloat32;
    case Dtype::bf16:
      return ncclBfloat16;
    case Dtype::f64:
      return ncclFloat64;
    case Dtype::i32:
      return ncclInt32;
    case Dtype::i64:
      return ncclInt64;
    case Dtype::u8:
      return ncclUint8;
  }
  fail_invariant(cat("[nccl] dtype ", static_cast<int>(dtype), " is unknown; expected a Dtype"));
}

ncclRedOp_t reduction_of(Reduce reduce) {
  constexpr ncclRedOp_t operations[] = {ncclSum, ncclMax, ncclMin};
  return operations[base::ordinal(reduce)];
}

std::byte* element(const Tensor& t, int64_t index) {
  return static_cast<std::byte*>(device_raw(t)) + index * size_of(t.dtype());
}

// Elements to send to each rank and to receive from each rank, as ranges of `in` and `out`.
struct Exchange {
  std::byte *in, *out;
  Dtype dtype;
  std::vector<Piece> send, receive;  // one piece per rank
};

// Exchanges the parts of all pairs of ranks. Launch l contains piece l of every pair that has this piece. The first
// launch contains all pairs, even pairs without elements. A rank that wrongly omits the call because it has no rows is
// therefore always detected.
void exchange(const Library& nccl, const Communicator& communicator, cudaStream_t stream, int rank, const Exchange& e,
              int64_t most) {
  const size_t ranks = e.send.size(), me = static_cast<size_t>(rank);
  const auto type = type_of(e.dtype);
  const auto at = [&](std::byte* p, const Piece& part, const Piece& piece) {
    return p + (part.begin + piece.begin) * size_of(e.dtype);
  };
  std::vector<std::vector<Piece>> send(ranks), receive(ranks);
  size_t launches = 1;
  for (size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    send[r] = pieces_of(e.send[r].count, most), receive[r] = pieces_of(e.receive[r].count, most);
    launches = std::max({launches, send[r].size(), receive[r].size()});
  }
  const std::byte* const own = at(e.in, e.send[me], {});
  std::byte* const place = at(e.out, e.receive[me], {});
  if (e.send[me].count > 0 && own != place)
    device::cuda::check(
        cudaMemcpyAsync(place, own, e.send[me].count * size_of(e.dtype), cudaMemcpyDeviceToDevice, stream),
        "copying a rank's message to itself");
  for (size_t l = 0; l < launches; ++l) {
    GroupedCalls calls(nccl);
    for (size_t r = 0; r < ranks; ++r) {
      if (l < send[r].size())
        check(nccl,
              nccl.send(at(e.in, e.send[r], send[r][l]), send[r][l].count, type, static_cast<int>(r),
                        communicator.handle(), stream),
              "sending");
      if (l < receive[r].size())
        check(nccl,
              nccl.receive(at(e.out, e.receive[r], receive[r][l]), receive[r][l].count, type, static_cast<int>(r),
                           communicator.handle(), stream),
              "receiving");
    }
    calls.end();
  }
}

std::vector<Piece> side_by_side(const std::vector<int64_t>& rows, int64_t width) {
  std::vector<Piece> parts;
  int64_t begin = 0;
  for (int64_t n : rows) {
    parts.push_back({begin * width, n * width});
    begin += n;
  }
  return parts;
}

StreamKind kind_of(const ProcessGroup& group, Urgency urgency) {
  return {.traffic = group.traffic(), .urgency = urgency, .across_nodes = group.crosses_nodes()};
}

// Maximum number of addends of PointwiseKernels::sum_of.
constexpr int max_addends = 64;

// Number of 8-byte words of a name that ranks compare.
constexpr size_t name_words = 8;

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<CardRank> card, const ProcessGroup& control, std::unique_ptr<ProcessGroup> owned,
                     std::shared_ptr<Communicator> communicator, Urgency urgency)
    : ProcessGroup(control.traffic(), control.name(), control.meter(), control.node_of_rank()),
      card_(std::move(card)),
      owned_(std::move(owned)),
      control_(control),
      urgency_(urgency),
      communicator_(std::move(communicator)),
      stream_(card_->stream(kind_of(control, urgency))) {}

std::unique_ptr<ProcessGroup> NcclGroup::split(int color, int key, TrafficClass traffic, std::string name) const {
  check_same_split(name);
  return make(color, key, control_.split(color, key, traffic, std::move(name)), Urgency::ordinary);
}

std::unique_ptr<ProcessGroup> NcclGroup::subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                  std::string name) const {
  check_same_split(name);
  std::unique_ptr<ProcessGroup> control = control_.subgroup(members, traffic, std::move(name));
  const int color = *std::min_element(members.begin(), members.end()), key = control->rank();
  return make(color, key, std::move(control), Urgency::ordinary);
}

std::unique_ptr<ProcessGroup> NcclGroup::urgent(std::string name) const {
  check_same_split(name);
  return make(0, rank(), control_.urgent(std::move(name)), Urgency::urgent);
}

std::unique_ptr<ProcessGroup> NcclGroup::duplicate(std::string name) const {
  check_same_split(name);
  std::unique_ptr<ProcessGroup> control = control_.duplicate(std::move(name));
  const ProcessGroup& its = *control;
  return std::make_unique<NcclGroup>(card_, its, std::move(control), communicator_, urgency_);
}

void NcclGroup::connect(Uses uses, Device device) const {
  if (card_->options().sum_of) uses = with_sums_in_order(uses);
  // Small sums and counts use the connections of sums.
  if (uses.has(Use::sums)) uses = uses | Uses{Use::small_sums, Use::counts};
  if (uses.has(Use::messages)) connect_routes(all_routes(size()), device);
  Uses& connected = communicator_->connected();
  const Uses fresh = uses - connected - Use::messages;
  if (fresh.empty()) return;
  const auto here = std::count(node_of_rank().begin(), node_of_rank().end(), node_of_rank()[rank()]);
  CommunicatorShape shape = shape_of(kind_of(*this, urgency_), size(), static_cast<int>(here));
  shape.channels = std::min(shape.channels, card_->max_blocks());
  const int64_t expected = connection_bytes(shape, connected | fresh) - connection_bytes(shape, connected);
  const Tensor buffer = connecting_buffer(fresh, size(), device);
  const Watch::HostCall call(card_->watch(), cat("connecting the ranks of group ", name()));
  communicator_->take_memory(expected, [&] {
    nccl::connect(*card_, {communicator_->handle(), *stream_, rank(), size()}, fresh, buffer);
  });
  connected = connected | fresh;
}

void NcclGroup::connect_routes(std::span<const Route> routes, Device) const {
  if (!channels_) channels_ = std::make_unique<Channels>(*card_, *communicator_, *this);
  if (channels_->has(routes)) return;
  quiesce();
  channels_->add(routes);
}

std::unique_ptr<WindowMemory> NcclGroup::window_memory() const {
  return std::make_unique<NcclWindows>(card_, communicator_, stream_, control_);
}

// Throws Error(communication) if the first 64 bytes of `name`, the name of the new group, differ between ranks. If
// ranks made communicators in different orders, communicators would contain the wrong ranks and hang later.
void NcclGroup::check_same_split(const std::string& name) const {
  std::array<int64_t, name_words> mine{};
  std::memcpy(mine.data(), name.data(), std::min(name.size(), sizeof mine));
  device::DeviceContext host;
  if (control_.same_on_all(mine, host)) return;
  const std::vector<int64_t> all = control_.all_gather_values(mine, host);
  for (int r = 0; r < size(); ++r) {
    std::array<char, sizeof mine + 1> others{};
    std::memcpy(others.data(), all.data() + static_cast<size_t>(r) * name_words, sizeof mine);
    if (std::string_view(others.data()) != name.substr(0, sizeof mine))
      fail(ExitCode::communication, "[", this->name(), "] rank ", rank(), " splits off group ", name, ", but rank ", r,
           " splits off group ", others.data(),
           "; expected splits into the same groups on all ranks, in the same order");
  }
}

std::unique_ptr<ProcessGroup> NcclGroup::make(int color, int key, std::unique_ptr<ProcessGroup> control,
                                              Urgency urgency) const {
  require(color >= 0, "[", name(), "] the colour of a split is ", color, "; expected at least 0");
  const bool alone = control->size() == 1;
  quiesce();
  auto communicator =
      communicator_->split(alone ? std::nullopt : std::optional(color), key,
                           card_->named(config_of(kind_of(*control, urgency)), control->traffic(), control->name()));
  if (alone) return control;
  if (card_->options().sum_of && control->size() > max_addends)
    fail(ExitCode::usage, "[", control->name(), "] train.deterministic sums over at most ", max_addends,
         " ranks in rank order, but this group has ", control->size(),
         "; set train.deterministic: false, or use smaller groups");
  const ProcessGroup& its = *control;
  return std::make_unique<NcclGroup>(card_, its, std::move(control), std::move(communicator), urgency);
}

// Waits for the operations of the group, because NCCL can split a communicator only if it has no operation in flight.
void NcclGroup::quiesce() const {
  const Watch::HostCall call(card_->watch(), cat("waiting for the operations of group ", name(), " before a split"));
  stream_->stream().synchronize();
}

std::string NcclGroup::describe(const Operation& op) const {
  return cat("operation ", operations_, " of group ", name(), " (rank ", rank(), " of ", size(), "), ", op.call());
}

int64_t NcclGroup::piece(Dtype dtype) const {
  return std::max<int64_t>(1, card_->options().piece_bytes / size_of(dtype));
}

bool NcclGroup::sums_in_order(const Operation& op) const {
  return card_->options().sum_of && op.reduce == Reduce::sum && is_floating(op.out.dtype());
}

Event NcclGroup::start(Operation op, Stream& stream) const {
  if (!stream.on_device() || op.kind == Kind::barrier) return control_.issue(std::move(op), stream);
  for (const Tensor* t : {&op.in, &op.out})
    require(!t->defined() || !t->device().on_host(), "[", name_of(op.kind), "] a tensor of ", t->bytes(),
            " bytes is in host memory, but the stream is of a card; expected tensors on the card");
  const int ordinal = device::cuda::cuda_stream(stream).card().ordinal();
  require(ordinal == card_->ordinal(), "[", name(), "] the stream is of card ", ordinal, "; expected card ",
          card_->ordinal(), ", which the group uses");
  if (!op.is_point_to_point() || !channels_)
    connect(use_over_nccl(op, communicator_->connected()), (op.out.defined() ? op.out : op.in).device());
  Event done;
  if (op.is_point_to_point()) {
    done = message(op, stream);
  } else {
    Watch::Launch flight{
        .what = describe(op), .traffic = traffic(), .bytes = op.wire_bytes(rank(), size()), .meter = meter()};
    done = card_->launch(*stream_, stream, std::move(flight), [&] { launch(op, stream); });
  }
  ++operations_;
  return done;
}

Event NcclGroup::message(const Operation& op, Stream& stream) const {
  const bool sends = op.kind == Kind::send;
  const Channel& channel = sends ? channels_->to(op.peer) : channels_->from(op.peer);
  const Tensor& t = sends ? op.in : op.out;
  Watch::Launch flight{
      .what = describe(op), .traffic = traffic(), .bytes = op.wire_bytes(rank(), size()), .meter = meter()};
  const Event done = card_->launch(*channel.stream, stream, std::move(flight), [&] {
    channel.stream->touch(t, stream);
    const Library& nccl = card_->library();
    const ncclComm_t communicator = channel.communicator->handle();
    const auto on = channel.stream->handle();
    const auto type = type_of(t.dtype());
    for (const Piece& p : pieces_of(t.numel(), piece(t.dtype()))) {
      const size_t count = p.count;
      if (sends)
        check(nccl, nccl.send(element(t, p.begin), count, type, channel.peer, communicator, on.get()), "sending");
      else
        check(nccl, nccl.receive(element(t, p.begin), count, type, channel.peer, communicator, on.get()), "receiving");
    }
  });
  channel.stream->end_use(t, stream);  // reuse of t's memory then need not wait for later messages of the channel
  return done;
}

void NcclGroup::launch(const Operation& op, Stream& caller) const {
  stream_->touch(op.in, caller), stream_->touch(op.out, caller);
  const Library& nccl = card_->library();
  const ncclComm_t communicator = communicator_->handle();
  const auto stream = stream_->handle();
  const auto type = type_of(op.out.dtype());
  if ((op.kind == Kind::all_reduce || op.kind == Kind::reduce_scatter) && sums_in_order(op))
    return sum_in_order(op, caller);
  if (gathers_by_exchange(op)) return gather_by_exchange(op);
  std::unique_lock<std::mutex> in_use;
  if (communicator_->registered() &&
      op.kind !=
          Kind::all_to_all)  // buffers of an all_to_all are not registered, because their sizes change every step
    in_use = communicator_->registered()->use(std::array{&op.in, &op.out}, caller, stream_);
  switch (op.kind) {
    case Kind::all_reduce:
      for (const Piece& p : pieces_of(op.out.numel(), piece(op.out.dtype()))) {
        void* const x = element(op.out, p.begin);
        check(nccl, nccl.all_reduce(x, x, p.count, type, reduction_of(op.reduce), communicator, stream.get()),
              "all_reduce");
      }
      return;
    case Kind::broadcast:
      for (const Piece& p : pieces_of(op.out.numel(), piece(op.out.dtype()))) {
        void* const x = element(op.out, p.begin);
        check(nccl, nccl.broadcast(x, x, p.count, type, op.peer, communicator, stream.get()), "broadcast");
      }
      return;
    // reduce_scatter and all_gather are not divided, because pieces of the ranks' parts would not be contiguous. They
    // therefore occupy their stream for a whole bucket of gradients or weights.
    case Kind::reduce_scatter:
      return check(nccl,
                   nccl.reduce_scatter(device_raw(op.in), device_raw(op.out), op.out.numel(), type, ncclSum,
                                       communicator, stream.get()),
                   "reduce_scatter");
    case Kind::all_gather:
      return check(
          nccl, nccl.all_gather(device_raw(op.in), device_raw(op.out), op.in.numel(), type, communicator, stream.get()),
          "all_gather");
    case Kind::all_to_all:
      return all_to_all(op);
    case Kind::send:
    case Kind::receive:
    case Kind::barrier:
      fail_invariant(cat("[nccl] the operation is ", name_of(op.kind), "; expected a collective of the whole group"));
  }
}

void NcclGroup::all_to_all(const Operation& op) const {
  const int64_t width = row_bytes(op.in) / size_of(op.in.dtype());
  const auto stream = stream_->handle();
  exchange(card_->library(), *communicator_, stream.get(), rank(),
           {.in = element(op.in, 0),
            .out = element(op.out, 0),
            .dtype = op.in.dtype(),
            .send = side_by_side(op.splits.send, width),
            .receive = side_by_side(op.splits.receive, width)},
           piece(op.in.dtype()));
}

// True if exchanges gather the parts of an all_gather. The result is the same on all ranks, because all ranks connect
// for the same operations.
bool NcclGroup::gathers_by_exchange(const Operation& op) const {
  return op.kind == Kind::all_gather && use_over_nccl(op, communicator_->connected()) == Use::exchanges;
}

// Sends this rank's part to every other rank, over the connections of exchanges.
void NcclGroup::gather_by_exchange(const Operation& op) const {
  const int64_t count = op.in.numel();
  const auto stream = stream_->handle();
  exchange(card_->library(), *communicator_, stream.get(), rank(),
           {.in = element(op.in, 0),
            .out = element(op.out, 0),
            .dtype = op.in.dtype(),
            .send = std::vector<Piece>(size(), Piece{0, count}),
            .receive = side_by_side(std::vector<int64_t>(size(), count), 1)},
           piece(op.in.dtype()));
}

// Sums in the order of the ranks. Every rank receives all addends of its part and adds them in this order. In an
// all_reduce, the ranks then exchange the sums. The number of bytes sent is the same as with NCCL's ring.
void NcclGroup::sum_in_order(const Operation& op, Stream& caller) const {
  const bool everywhere = op.kind == Kind::all_reduce;
  const Tensor& in = everywhere ? op.out : op.in;
  const Dtype dtype = in.dtype();
  std::vector<Piece> parts, rows;
  for (int r = 0; r < size(); ++r) parts.push_back(share_of(in.numel(), r, size()));
  const Piece mine = parts[rank()];
  for (int r = 0; r < size(); ++r) rows.push_back({r * mine.count, mine.count});
  const Tensor addends = Tensor::empty({size(), mine.count}, dtype, in.device(), Category::communication);
  stream_->touch(addends, caller);
  const auto stream = stream_->handle();
  exchange(card_->library(), *communicator_, stream.get(), rank(),
           {.in = element(in, 0), .out = element(addends, 0), .dtype = dtype, .send = parts, .receive = rows},
           piece(dtype));
  const Tensor sum = everywhere ? op.out.reshape({-1}).slice(0, mine.begin, mine.begin + mine.count) : op.out;
  std::vector<Tensor> in_order;
  for (int r = 0; r < size(); ++r) in_order.push_back(addends.slice(0, r, r + 1).reshape(sum.shape()));
  if (mine.count > 0) card_->options().sum_of(stream_->stream(), sum, in_order);
  if (!everywhere) return;
  exchange(card_->library(), *communicator_, stream.get(), rank(),
           {.in = element(op.out, 0),
            .out = element(op.out, 0),
            .dtype = dtype,
            .send = std::vector<Piece>(size(), mine),
            .receive = parts},
           piece(dtype));
}

}  // namespace hexad::comm::nccl
