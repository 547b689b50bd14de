#include "tests/support/cuda_double/nccl_buffers.h"

#include <bit>

#include "tests/support/cuda_double/memory.h"

namespace hexad::cuda_double {
namespace {

constexpr int64_t kib = 1 << 10, mib = 1 << 20;

// Buffers that other processes can open are whole pages of 2 MiB.
constexpr int64_t in_pages(int64_t bytes) { return (bytes + 2 * mib - 1) / (2 * mib) * (2 * mib); }

constexpr int64_t steps = 8;  // parts of a buffer that are in use at the same time
// Bytes of a receiving side's buffers for the protocols LL (512 threads, 8 lines of 16 bytes per thread), LL128 (640
// threads, 120 words of 8 bytes per thread) and Simple.
constexpr int64_t receive_side = in_pages(512 * 8 * 16 * steps + 640 * 120 * 8 * steps + 4 * mib + 4 * kib);
constexpr int64_t send_side = in_pages(4 * kib);
constexpr int64_t multicast_step = 128 * kib;
// All-reduces of at least this many bytes use NVLink SHARP.
constexpr size_t least_multicast = 1 << 20;

}  // namespace

NcclBuffers::Wanted NcclBuffers::wanted_by(const Place& at, const NcclCall& call) {
  Wanted wanted{};
  if (call.is_message()) {
    // The number of channels for messages is a power of two. Every peer uses all of these channels.
    const int channels = static_cast<int>(std::bit_ceil(static_cast<unsigned>(at.channels)));
    for (int c = 0; c < channels; ++c)
      if (call.peer != at.rank) wanted.sides.insert({c, call.peer, call.kind == NcclKind::receive, true});
    return wanted;
  }
  const int before = (at.rank + at.ranks - 1) % at.ranks, after = (at.rank + 1) % at.ranks;
  const bool sum = call.kind == NcclKind::all_reduce;
  for (int c = 0; c < at.channels; ++c) {
    wanted.sides.insert({c, before, true, false});
    wanted.sides.insert({c, after, false, false});
    if (!sum) continue;  // only all-reduces also use the ring in the opposite direction
    wanted.sides.insert({c, after, true, false});
    wanted.sides.insert({c, before, false, false});
  }
  wanted.multicast = sum && call.bytes() >= least_multicast;
  return wanted;
}

// Returns the buffers that the calls need and that are still missing.
NcclBuffers::Wanted NcclBuffers::missing(const Place& at, const std::vector<NcclCall>& calls) const {
  Wanted fresh{};
  if (at.ranks == 1) return fresh;
  for (const NcclCall& call : calls) {
    const Wanted wanted = wanted_by(at, call);
    for (const Side& side : wanted.sides)
      if (!sides_.contains(side)) fresh.sides.insert(side);
    fresh.multicast = fresh.multicast || (wanted.multicast && !multicast_);
  }
  return fresh;
}

bool NcclBuffers::lack(const Place& at, const std::vector<NcclCall>& calls) const {
  const Wanted fresh = missing(at, calls);
  return fresh.multicast || !fresh.sides.empty();
}

bool NcclBuffers::connect(const Place& at, const std::vector<NcclCall>& calls) {
  Wanted fresh = missing(at, calls);
  int64_t more = 0;
  for (const Side& side : fresh.sides) more += side.receives ? receive_side : send_side;
  // Each rank reduces a part, and has a buffer for every rank's part, channel and direction.
  if (fresh.multicast) more += in_pages(2 * multicast_step * steps * at.channels * at.ranks);
  if (!charge(at.device, more)) return false;
  sides_.merge(fresh.sides);
  multicast_ = multicast_ || fresh.multicast;
  bytes_ += more;
  return true;
}

void NcclBuffers::free(int device) {
  charge(device, -bytes_);
  bytes_ = 0;
  sides_.clear();
  multicast_ = false;
}

}  // namespace hexad::cuda_double
