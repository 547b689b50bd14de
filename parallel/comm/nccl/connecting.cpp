#include "parallel/comm/nccl/connecting.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "framework/tensor/device_access.h"

namespace hexad::comm::nccl {
namespace {

// Sizes, in bytes, at which NCCL may use different algorithms.
constexpr int64_t few = 1 << 10;
constexpr int64_t sizes[] = {few, 32 << 10, least_large_sum, 4 * least_large_sum};

constexpr bool has_sizes(Uses uses) { return uses.has(Use::sums) || uses.has(Use::shares) || uses.has(Use::gathers); }

// Sends the first byte of `bytes` to every other rank, and receives one byte from each of them.
void exchange(const Library& nccl, const CommunicatorRank& me, std::byte* bytes) {
  const auto stream = me.stream.handle();
  GroupedCalls calls(nccl);
  for (int peer = 0; peer < me.size; ++peer) {
    if (peer == me.rank) continue;
    check(nccl, nccl.send(bytes, 1, ncclUint8, peer, me.communicator, stream.get()), "sending");
    check(nccl, nccl.receive(bytes + 1 + peer, 1, ncclUint8, peer, me.communicator, stream.get()), "receiving");
  }
  calls.end();
}

}  // namespace

Tensor connecting_buffer(Uses uses, int ranks, device::Device device) {
  const int64_t bytes = std::max<int64_t>(1 + ranks, has_sizes(uses) ? sizes[std::size(sizes) - 1] : few);
  return Tensor::empty({bytes}, base::Dtype::u8, device, device::Category::communication);
}

void connect(CardRank& card, const CommunicatorRank& me, Uses uses, const Tensor& buffer) {
  me.stream.touch(buffer, buffer.device().context().compute());
  std::byte* const bytes = static_cast<std::byte*>(tensor::device_raw(buffer));
  const Library& nccl = card.library();
  const auto stream = me.stream.handle();
  const auto sum = [&](int64_t size) {
    check(nccl, nccl.all_reduce(bytes, bytes, size / 4, ncclFloat32, ncclSum, me.communicator, stream.get()),
          "all_reduce");
  };
  if (uses.has(Use::small_sums) || uses.has(Use::counts)) sum(few);
  for (const int64_t size : has_sizes(uses) ? std::span(sizes) : std::span<const int64_t>()) {
    const size_t part = std::max<int64_t>(1, size / 4 / me.size);  // elements per rank
    std::byte* const mine = bytes + 4 * part * static_cast<size_t>(me.rank);
    if (uses.has(Use::sums)) sum(size);
    if (uses.has(Use::shares))
      check(nccl, nccl.reduce_scatter(bytes, mine, part, ncclFloat32, ncclSum, me.communicator, stream.get()),
            "reduce_scatter");
    if (uses.has(Use::gathers))
      check(nccl, nccl.all_gather(mine, bytes, part, ncclFloat32, me.communicator, stream.get()), "all_gather");
  }
  if (uses.has(Use::exchanges)) exchange(nccl, me, bytes);
}

}  // namespace hexad::comm::nccl
