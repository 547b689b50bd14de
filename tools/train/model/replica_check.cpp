#include "tools/train/model/replica_check.h"

#include <algorithm>
#include <map>
#include <vector>

#include "framework/base/philox.h"
#include "framework/data/digest.h"
#include "framework/tensor/host_read.h"

namespace hexad::train {
namespace {

using autograd::Parameter;
using base::cat;

// Returns a key for the piece of `p` that this rank holds. The same piece has the same key on all ranks. With ZeRO-3, a
// rank holds only the weights that it owns between steps.
uint64_t key_of(const Parameter& p) {
  const auto region = p.region();
  const base::FlatRange owned = p.owned();
  return base::stable_hash(cat(p.name(), " ", region.begin, " ", region.size,
                               p.weights_stay() ? "" : cat(" ", owned.begin, " ", owned.end)));
}

uint64_t content_of(Parameter& p) {
  const tensor::Tensor here = p.weights_stay() ? p.local() : p.owned_weights(),
                       t = tensor::copy_to_host("replica check", here, here.device().context().compute());
  return data::digest_of({static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes())}).low;
}

struct Piece {
  uint64_t key = 0, content = 0;
};

// Returns the pieces of every rank. The pieces of a rank have the order of its parameters. Collective.
std::vector<std::vector<Piece>> all_pieces(const autograd::ParameterSet& parameters, const comm::ProcessGroup& world) {
  const auto most = static_cast<int64_t>(
      world.all_reduce_value(static_cast<double>(parameters.size()), comm::Reduce::max, parameters.device()));
  std::vector<int64_t> mine;
  mine.reserve(2 * most + 1);
  mine.push_back(static_cast<int64_t>(parameters.size()));
  for (const auto& p : parameters)
    mine.insert(mine.end(), {static_cast<int64_t>(key_of(*p)), static_cast<int64_t>(content_of(*p))});
  mine.resize(2 * most + 1);
  const std::vector<int64_t> all = world.all_gather_values(mine, parameters.device());
  std::vector<std::vector<Piece>> pieces;
  for (auto at = all.begin(); at != all.end(); at += 2 * most + 1) {
    auto& list = pieces.emplace_back(*at);
    for (size_t i = 0; i < list.size(); ++i) {
      const auto pair = at + 1 + 2 * static_cast<int64_t>(i);
      list[i] = {static_cast<uint64_t>(pair[0]), static_cast<uint64_t>(pair[1])};
    }
  }
  return pieces;
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

}  // namespace

void check_replicas(const autograd::ParameterSet& parameters, const comm::ProcessGroup& world) {
  if (world.size() == 1) return;
  const auto pieces = all_pieces(parameters, world);
  std::map<uint64_t, std::map<uint64_t, std::vector<int>>> holders;  // ranks by key and content
  for (size_t r = 0; r < pieces.size(); ++r)
    for (const Piece& p : pieces[r]) holders[p.key][p.content].push_back(static_cast<int>(r));
  const auto differ = [&](const Piece& p) { return holders.at(p.key).size() > 1; };
  // Reports the first piece that differs, in the order of ranks and their pieces. This order is the same on all ranks.
  for (size_t r = 0; r < pieces.size(); ++r) {
    const auto first = std::find_if(pieces[r].begin(), pieces[r].end(), differ);
    if (first == pieces[r].end()) continue;
    std::vector<std::vector<int>> sides;
    for (const auto& [content, ranks] : holders.at(first->key)) sides.push_back(ranks);
    std::sort(sides.begin(), sides.end(),
              [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a > b; });
    std::string text = cat("weights differ between replicas: '",
                           name_from(static_cast<int>(r), first->key, parameters, world), "' on ");
    for (size_t i = 0; i < sides.size(); ++i) text += cat(i ? " and on " : "", list_of(sides[i]));
    const auto more =
        std::count_if(holders.begin(), holders.end(), [](const auto& h) { return h.second.size() > 1; }) - 1;
    if (more > 0) text += cat(", and ", more, " more");
    base::fail(base::ExitCode::numeric, text, " (distributed.replica_check_every)");
  }
}

}  // namespace hexad::train
