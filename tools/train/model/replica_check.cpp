#include "tools/train/model/replica_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "framework/base/philox.h"
#include "framework/data/digest.h"
#include "framework/tensor/host_read.h"
#include "parallel/comm/text_collectives.h"

namespace hexad::train {
namespace {

using autograd::Parameter;
using base::cat;

// Returns a key for the piece of `p` that this rank holds. The same piece has the same key on all ranks. Between steps
// with ZeRO-3, a rank holds only the weights that it owns.
uint64_t key_of(const Parameter& p) {
  const auto region = p.region();
  const base::FlatRange owned = p.owned();
  return base::stable_hash(cat(p.name(), " ", region.begin, " ", region.size,
                               p.weights_are_resident() ? "" : cat(" ", owned.begin, " ", owned.end)));
}

uint64_t content_of(Parameter& p) {
  device::Stream& stream = p.device().context().compute();
  const tensor::Tensor here = p.weights_are_resident() ? p.use(stream) : p.owned_weights(),
                       t = tensor::copy_to_host("replica check", here, stream);
  return data::digest_of({static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes())}).low;
}

struct Piece {
  uint64_t key = 0, content = 0;
};

// Returns the piece of each parameter of this rank.
std::vector<Piece> own_pieces(const autograd::ParameterSet& parameters) {
  std::vector<Piece> pieces;
  for (const auto& p : parameters) pieces.push_back({key_of(*p), content_of(*p)});
  return pieces;
}

// True if all ranks that sum the gradient of a piece hold the same bits of the piece. Parameters whose weights are
// divided among these ranks (ZeRO-3) are not compared, because each rank holds a different part. Collective over these
// ranks.
bool reducers_agree(const autograd::ParameterSet& parameters, const std::vector<Piece>& mine, const mesh::Mesh& mesh) {
  std::vector<std::pair<const comm::ProcessGroup*, std::vector<int64_t>>> contents;  // contents of own pieces, by group
  size_t i = 0;
  for (const auto& p : parameters) {
    const Piece& piece = mine[i++];
    if (!p->weights_are_resident()) continue;
    const comm::ProcessGroup* group = &mesh.reducers(p->placement());
    auto at = std::ranges::find(contents, group, [](const auto& entry) { return entry.first; });
    if (at == contents.end()) at = contents.emplace(at, group, std::vector<int64_t>{});
    at->second.push_back(static_cast<int64_t>(piece.content));
  }
  bool agree = true;
  for (const auto& [group, values] : contents) agree = group->same_on_all(values, parameters.device()) && agree;
  return agree;
}

// Compares the ranks along the tensor axis of a view. True if any two of these ranks that hold the same piece have the
// same bits of this piece. The ranks have the same number of parameters. Collective over these ranks.
bool tensor_ranks_agree(const autograd::ParameterSet& parameters, const std::vector<Piece>& mine,
                        const mesh::Mesh& mesh, base::MeshView view) {
  std::vector<int64_t> values;
  size_t i = 0;
  for (const auto& p : parameters) {
    const Piece& piece = mine[i++];
    if (p->placement().view == view)
      values.insert(values.end(), {static_cast<int64_t>(piece.key), static_cast<int64_t>(piece.content)});
  }
  const comm::ProcessGroup& group = mesh[view == base::MeshView::dense ? base::Axis::tp : base::Axis::etp];
  if (values.empty() || group.size() == 1) return true;
  const std::vector<int64_t> all = group.all_gather_values(values, parameters.device());
  std::map<int64_t, int64_t> contents;  // content of each key
  for (size_t k = 0; k < all.size(); k += 2)
    if (contents.try_emplace(all[k], all[k + 1]).first->second != all[k + 1]) return false;
  return true;
}

// Ranks that hold each piece, by key and content. Empty on all ranks but rank 0.
struct Holders {
  std::map<uint64_t, std::map<uint64_t, std::vector<int>>> ranks;
  std::vector<std::pair<uint64_t, int>> order;  // each key and its lowest rank, in the order of ranks and their pieces

  bool differ(uint64_t key) const { return ranks.at(key).size() > 1; }
};

// Gathers the pieces of all ranks on rank 0, one rank after the other. Returns an empty object on other ranks.
// Collective.
Holders gather_holders(const std::vector<Piece>& own, const comm::ProcessGroup& world, device::Device device) {
  std::vector<uint8_t> mine(own.size() * sizeof(Piece));
  if (!own.empty()) std::memcpy(mine.data(), own.data(), mine.size());
  Holders holders;
  comm::gather_bytes(mine, world, device, [&](int rank, const std::vector<uint8_t>& bytes) {
    std::vector<Piece> pieces(bytes.size() / sizeof(Piece));
    if (!pieces.empty()) std::memcpy(pieces.data(), bytes.data(), bytes.size());
    for (const Piece& p : pieces) {
      auto& contents = holders.ranks[p.key];
      if (contents.empty()) holders.order.emplace_back(p.key, rank);
      contents[p.content].push_back(rank);
    }
  });
  return holders;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  for (size_t i = 0; i < ranks.size(); ++i) text += cat(i ? ", " : "", ranks[i]);
  return text;
}

// Returns the name of the parameter with this key. Rank `holder` sends the name, because ranks of other pipeline stages
// do not have the parameter. Collective.
std::string name_from(int holder, uint64_t key, const autograd::ParameterSet& parameters,
                      const comm::ProcessGroup& world) {
  constexpr int64_t longest = 256;
  const auto text =
      tensor::Tensor::zeros({longest}, base::Dtype::u8, parameters.device().host(), device::Category::communication);
  auto* chars = reinterpret_cast<char*>(text.data<uint8_t>());
  if (world.rank() == holder)
    for (const auto& p : parameters)
      if (key_of(*p) == key) p->name().copy(chars, longest - 1);
  device::InlineStream stream;
  world.broadcast(text, holder, stream).wait();
  return chars;
}

// Returns the numbers that rank 0 passes. All ranks must pass equally many numbers. Collective.
std::vector<int64_t> numbers_from_rank_0(const std::vector<int64_t>& numbers, const comm::ProcessGroup& world) {
  device::DeviceContext host;
  const auto sent = tensor::Tensor::from<int64_t>(numbers, {static_cast<int64_t>(numbers.size())}, host,
                                                  device::Category::communication);
  device::InlineStream stream;
  world.broadcast(sent, 0, stream).wait();
  return sent.to_vector<int64_t>();
}

std::string difference_text(const Holders& holders, uint64_t key, const std::string& name) {
  std::vector<std::vector<int>> sides;
  for (const auto& [content, ranks] : holders.ranks.at(key)) sides.push_back(ranks);
  std::sort(sides.begin(), sides.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a > b; });
  std::string text = cat("weights differ between replicas: '", name, "' on ");
  for (size_t i = 0; i < sides.size(); ++i) text += cat(i ? " and on " : "", list_of(sides[i]));
  const auto more = std::ranges::count_if(holders.order, [&](const auto& at) { return holders.differ(at.first); }) - 1;
  if (more > 0) text += cat("; further pieces of weights that differ: ", more);
  return text + " (distributed.replica_check_every)";
}

}  // namespace

void check_replicas(const autograd::ParameterSet& parameters, const mesh::Mesh& mesh) {
  const comm::ProcessGroup& world = mesh.world();
  if (world.size() == 1) return;
  const std::vector<Piece> mine = own_pieces(parameters);
  // Compares pieces among the ranks that sum their gradients, and along the tensor axes of both views. A chain of these
  // groups connects any two ranks that hold the same piece. If each group agrees, all replicas are therefore equal.
  // Every rank makes all three comparisons, even if an earlier comparison has found a difference, because comparisons
  // are collective.
  const bool reducers = reducers_agree(parameters, mine, mesh);
  const bool dense = tensor_ranks_agree(parameters, mine, mesh, base::MeshView::dense);
  const bool experts = tensor_ranks_agree(parameters, mine, mesh, base::MeshView::expert);
  if (!world.any(!(reducers && dense && experts), parameters.device())) return;
  const Holders holders = gather_holders(mine, world, parameters.device());
  // Reports the first piece that differs, in the order of ranks and their pieces.
  const auto first = std::ranges::find_if(holders.order, [&](const auto& at) { return holders.differ(at.first); });
  const bool found = first != holders.order.end();
  const std::vector<int64_t> piece =
      numbers_from_rank_0({found, found ? static_cast<int64_t>(first->first) : 0, found ? first->second : 0}, world);
  if (piece[0] == 0) return;
  const std::string name = name_from(static_cast<int>(piece[2]), static_cast<uint64_t>(piece[1]), parameters, world);
  base::fail(base::ExitCode::numeric, comm::broadcast_text(found ? difference_text(holders, first->first, name) : "", 0,
                                                           world, parameters.device()));
}

}  // namespace hexad::train
