#include "parallel/comm/message_plan_builder.h"

#include <algorithm>
#include <utility>

#include "framework/base/block_sizes.h"
#include "parallel/comm/reduce.h"

namespace hexad::comm {

using namespace base;
using device::Category;

namespace {

// Returns the size of a piece in bytes: about `bytes`, but at least BlockSizes::message_bytes. Sizes are multiples of
// 64 bytes, so that pieces are aligned like the tensors.
int64_t piece_of(int64_t bytes) { return std::max(block_sizes().message_bytes, bytes) / 64 * 64; }

// Maximum number of rounds in flight in an exchange whose rounds each have messages to only some of the ranks.
constexpr int rounds_in_flight = 16;

}  // namespace

MessagePlanBuilder::MessagePlanBuilder(const Operation& op, int rank, int size, int64_t round_bytes)
    : op_(op),
      rank_(rank),
      size_(size),
      piece_(piece_of(round_bytes / (op.is_point_to_point() ? 1 : std::max(1, size - 1)))),
      max_single_message_bytes_(piece_of(round_bytes)) {}

bool MessagePlanBuilder::large() const { return size_ > block_sizes().direct_ranks; }

bool MessagePlanBuilder::is_small(const Tensor& t) { return t.bytes() <= block_sizes().whole_bytes; }

int MessagePlanBuilder::add(Round round) {
  const auto empty = [](const Transfer& t) { return t.bytes == 0; };
  std::erase_if(round.sends, empty);
  std::erase_if(round.receives, empty);
  plan_.rounds.push_back(std::move(round));
  return static_cast<int>(plan_.rounds.size()) - 1;
}

void MessagePlanBuilder::follow(Round round) {
  round.after = static_cast<int>(plan_.rounds.size()) - 1;
  add(std::move(round));
}

void MessagePlanBuilder::exchange(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives,
                                  int64_t piece, int after) {
  const auto steps =
      static_cast<size_t>(std::max<int64_t>(block_sizes().direct_ranks, max_single_message_bytes_ / piece));
  const auto pieces = [&](const std::vector<Transfer>& whole, int64_t begin, size_t first) {
    std::vector<Transfer> cut;
    for (size_t k = first; k < std::min(first + steps, whole.size()); ++k)
      if (const Transfer& t = whole[k]; begin < t.bytes)
        cut.push_back({t.peer, t.data + begin, std::min(piece, t.bytes - begin)});
    return cut;
  };
  int64_t longest = 0;
  for (const auto* list : {&sends, &receives})
    for (const Transfer& t : *list) longest = std::max(longest, t.bytes);
  const size_t most = std::max(sends.size(), receives.size());
  for (int64_t begin = 0; begin < longest; begin += piece)
    for (size_t first = 0; first < most; first += steps) {
      Round round{.sends = pieces(sends, begin, first), .receives = pieces(receives, begin, first), .after = after};
      // Tiny messages do not fill the window. Without this limit, all rounds would be in flight at once, and each poll
      // would examine the messages of all ranks.
      if (most > steps) round.after = std::max(after, static_cast<int>(plan_.rounds.size()) - rounds_in_flight);
      if (!round.sends.empty() || !round.receives.empty()) add(std::move(round));
    }
}

void MessagePlanBuilder::follow(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives) {
  exchange(sends, receives, max_single_message_bytes_, static_cast<int>(plan_.rounds.size()) - 1);
}

Tensor MessagePlanBuilder::scratch_tensor(int64_t bytes) {
  plan_.scratch.push_back(
      Tensor::empty({std::max<int64_t>(1, bytes)}, Dtype::u8, op_.out.device(), Category::communication));
  return plan_.scratch.back();
}

std::function<void()> MessagePlanBuilder::reduction(std::byte* out, std::vector<const void*> sources,
                                                    int64_t count) const {
  return [out, sources = std::move(sources), count, dtype = op_.out.dtype(), op = op_.reduce] {
    reduce(out, sources, count, dtype, op);
  };
}

MessagePlan MessagePlanBuilder::finished() {
  if (plan_.rounds.empty()) plan_.rounds.emplace_back();
  return std::move(plan_);
}

}  // namespace hexad::comm
