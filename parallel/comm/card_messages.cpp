#include "parallel/comm/card_messages.h"

#include <numeric>

#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/cuda/plain_memory.h"
#include "framework/device/cuda/thread_card.h"
#include "framework/tensor/device_access.h"
#include "parallel/comm/engine_group.h"
#include "parallel/comm/through_host.h"

namespace hexad::comm {
namespace {

using device::cuda::cuda_stream;
using Kind = Operation::Kind;

bool only_moves(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::all_to_all || kind == Kind::broadcast || kind == Kind::send ||
         kind == Kind::receive;
}

// Returns a tensor like `t` whose elements are in `buffer`. Transports get the address of the buffer as if it were host
// memory, but no host code reads this memory.
Tensor in_buffer(const Tensor& t, std::byte* buffer) {
  const auto offset = static_cast<std::byte*>(tensor::device_raw(t)) - tensor::DeviceAccess::begin(*t.storage());
  return t.borrowed_at(buffer - offset, t.device());
}

// Copies the message that this rank sends to itself, on the card: from `op.in` to the rank's range of `arriving`. Does
// nothing for operations in which a rank sends nothing to itself.
void copy_own(const Operation& op, const Tensor& arriving, int rank, Stream& stream) {
  const size_t me = rank;
  if (op.kind == Kind::all_gather) {
    const int64_t n = op.in.numel();
    arriving.reshape({-1}).slice(0, rank * n, (rank + 1) * n).copy_from(op.in, stream);
  } else if (op.kind == Kind::all_to_all) {
    const auto own = [&](const Tensor& t, const std::vector<int64_t>& rows) {
      const int64_t begin = std::accumulate(rows.begin(), rows.begin() + rank, int64_t{0});
      return t.slice(0, begin, begin + rows[me]);
    };
    own(arriving, op.splits.receive).copy_from(own(op.in, op.splits.send), stream);
  }
}

}  // namespace

CardMessageGroup::CardMessageGroup(Buffers buffers, const ProcessGroup& other, std::unique_ptr<ProcessGroup> owned)
    : ProcessGroup(other.traffic(), other.name(), other.meter(), other.node_of_rank()),
      buffers_(std::move(buffers)),
      owned_(std::move(owned)),
      other_(other) {}

std::unique_ptr<ProcessGroup> CardMessageGroup::split(int color, int key, TrafficClass traffic,
                                                      std::string name) const {
  return of(other_.split(color, key, traffic, std::move(name)));
}

std::unique_ptr<ProcessGroup> CardMessageGroup::subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                         std::string name) const {
  return of(other_.subgroup(members, traffic, std::move(name)));
}

std::unique_ptr<ProcessGroup> CardMessageGroup::urgent(std::string name) const {
  return of(other_.urgent(std::move(name)));
}

std::unique_ptr<ProcessGroup> CardMessageGroup::duplicate(std::string name) const {
  return of(other_.duplicate(std::move(name)));
}

std::unique_ptr<ProcessGroup> CardMessageGroup::of(std::unique_ptr<ProcessGroup> group) const {
  if (group->size() == 1) return group;
  const ProcessGroup& its = *group;
  return std::make_unique<CardMessageGroup>(buffers_, its, std::move(group));
}

Event CardMessageGroup::start(Operation op, Stream& stream) const {
  if (!stream.on_device() || !only_moves(op.kind)) return other_.issue(std::move(op), stream);
  const auto stage = [&](const Operation& on_card) {
    Staged staged{on_card};
    for (Tensor* t : {&staged.op.in, &staged.op.out}) {
      if (!t->defined()) continue;
      const std::shared_ptr<std::byte> buffer = buffers_->take(t->bytes());
      *t = in_buffer(*t, buffer.get());
      staged.owners.push_back(buffer);
    }
    copy_own(on_card, staged.op.out, rank(), stream);
    return staged;
  };
  const auto begin = [this](Operation staged, Stream& s) { return other_.issue(std::move(staged), s); };
  return through_host(std::move(op), rank(), begin, stream, stage);
}

std::unique_ptr<ProcessGroup> make_card_messages(const ProcessGroup& world, device::DeviceContext& context) {
  const auto* engines = dynamic_cast<const EngineGroup*>(&world);
  if (!engines || !engines->engine().topology().takes_cards) return nullptr;
  const device::cuda::CudaStream& compute = cuda_stream(context.compute());
  const int ordinal = compute.card().ordinal();
  // The transport runs on the engine's thread and uses the current card of that thread.
  engines->engine().on_thread([ordinal] { device::cuda::ensure_card(ordinal); });
  auto buffers = std::make_shared<device::cuda::ReusedBuffers>(compute.blocks(),
                                                               std::make_shared<device::cuda::PlainMemory>(ordinal));
  return std::make_unique<CardMessageGroup>(std::move(buffers), world);
}

}  // namespace hexad::comm
