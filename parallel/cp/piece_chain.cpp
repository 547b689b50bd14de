#include "parallel/cp/piece_chain.h"

#include "parallel/cp/delta_net_ops.h"

namespace hexad::cp {

using base::require;
using device::Category;

void connect_chain(const comm::ProcessGroup& group, device::Device device) {
  std::vector<comm::Route> routes;
  for (int rank = 0; rank + 1 < group.size(); ++rank) {
    routes.push_back({rank, rank + 1});
    routes.push_back({rank + 1, rank});
  }
  group.connect_routes(routes, device);
}

std::vector<int> PieceChain::halves() const {
  if (split_.halves() == 1) return {0};
  return along_ == Along::later ? std::vector{0, 1} : std::vector{1, 0};
}

// Returns the rank of the piece whose index is the index of this rank's half `half` plus `step` (1 or -1). Returns
// nullopt if there is no such piece.
std::optional<int> PieceChain::neighbour(int half, int step) const {
  const int pieces = split_.ranks == 1 ? 1 : 2 * split_.ranks, piece = split_.piece(split_.rank, half) + step;
  if (piece < 0 || piece >= pieces) return {};
  return piece < split_.ranks ? piece : pieces - 1 - piece;
}

void PieceChain::pass_on(int half, const Tensor& t) {
  const auto to = neighbour(half, along_ == Along::later ? 1 : -1);
  if (!to) return;
  if (*to == split_.rank)
    own_ = t;
  else
    sent_.push_back(group_.send(t, *to, stream_));
}

Tensor PieceChain::take(int half, const Tensor& like) {
  const auto from = neighbour(half, along_ == Along::later ? -1 : 1);
  require(from.has_value(), "[cp] no piece passes a tensor to half ", half, " of rank ", split_.rank,
          "; expected a half for which has_source() is true");
  if (*from == split_.rank) return own_;
  const Tensor t = Tensor::like(like, Category::communication);
  stream_.wait(group_.receive(t, *from, stream_));
  return t;
}

void PieceChain::finish() {
  for (const device::Event& event : sent_) stream_.wait(event);
  sent_.clear();
}

}  // namespace hexad::cp
