#include "parallel/ep/hot_experts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/tensor/host_read.h"

namespace hexad::ep {

using device::Category;
using namespace base;
using namespace tensor;
namespace {

// Returns the number of slots of each expert.
std::vector<int64_t> loads_of(const Tensor& ids, int64_t experts) {
  std::vector<int64_t> loads(experts, 0);
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    require(id[i] >= -1 && id[i] < experts, "[ep] slot ", i, " names expert ", id[i],
            ", expected at least -1 and less than ", experts);
    if (id[i] >= 0) ++loads[id[i]];
  }
  return loads;
}

}  // namespace

HotExperts::HotExperts(std::vector<int64_t> hot, int64_t experts, int64_t ranks)
    : hot_(std::move(hot)), experts_(experts), ranks_(ranks) {
  require(ranks > 0 && experts % ranks == 0, "[ep] ", experts, " experts cannot be divided among ", ranks,
          " ranks; expected at least 1 rank, and an equal number of experts for each rank");
  std::ranges::sort(hot_);
  for (size_t i = 0; i < hot_.size(); ++i) {
    require(0 <= hot_[i] && hot_[i] < experts, "[ep] hot expert ", hot_[i],
            " does not exist; expected an id from 0 to ", experts - 1);
    require(i == 0 || hot_[i - 1] < hot_[i], "[ep] hot expert ", hot_[i],
            " is listed twice; expected distinct experts");
  }
}

int64_t HotExperts::number(int64_t expert, int64_t rank) const {
  if (!any()) return expert;
  const int64_t width = own() + count();
  const auto at = std::ranges::lower_bound(hot_, expert);
  if (at != hot_.end() && *at == expert) return rank * width + own() + (at - hot_.begin());
  return expert / own() * width + expert % own();
}

std::vector<int64_t> HotExperts::by_expert(std::vector<int64_t> of_numbers) const {
  if (!any()) return of_numbers;
  const int64_t width = own() + count(), chunks = static_cast<int64_t>(of_numbers.size()) / (ranks_ * width);
  std::vector<int64_t> counts(chunks * experts_, 0);
  for (int64_t i = 0; i < static_cast<int64_t>(of_numbers.size()); ++i) {
    const int64_t chunk = i / (ranks_ * width), rank = i / width % ranks_, place = i % width;
    counts[chunk * experts_ + (place < own() ? rank * own() + place : hot_[place - own()])] += of_numbers[i];
  }
  return counts;
}

std::vector<int64_t> HotExperts::by_number(std::span<const int64_t> of_experts, int64_t rank) const {
  std::vector<int64_t> counts(numbers(static_cast<int64_t>(of_experts.size())), 0);
  for (int64_t e = 0; e < static_cast<int64_t>(of_experts.size()); ++e) counts[number(e, rank)] += of_experts[e];
  return counts;
}

HotExperts hottest(std::span<const int64_t> loads, int64_t ranks, const HotRule& rule) {
  const auto experts = static_cast<int64_t>(loads.size());
  const auto total = static_cast<double>(std::accumulate(loads.begin(), loads.end(), int64_t{0}));
  std::vector<int64_t> hot;
  for (int64_t e = 0; e < experts; ++e)
    if (loads[e] >= rule.least_rows &&
        static_cast<double>(loads[e]) * static_cast<double>(experts) >= rule.least_load * total)
      hot.push_back(e);
  std::ranges::stable_sort(hot, [&](int64_t a, int64_t b) { return loads[a] > loads[b]; });
  if (const int64_t most = experts / ranks; static_cast<int64_t>(hot.size()) > most) hot.resize(most);
  return {std::move(hot), experts, ranks};
}

HotExperts agree_on_hot_experts(const Tensor& ids, int64_t experts, int64_t ep_ranks, const HotRule& rule,
                                const comm::ProcessGroup& sources) {
  const std::vector<int64_t> all = sources.all_gather_values(loads_of(ids, experts), ids.device().host());
  constexpr int64_t most = int64_t{1} << 40;  // limit of each load, so that sums cannot overflow
  std::vector<int64_t> loads(experts, 0);
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t e = i % loads.size();
    if (all[i] < 0 || all[i] > most)
      fail(ExitCode::communication, "routing: rank ", i / loads.size(), " of group ", sources.name(), " sent the load ",
           all[i], " of expert ", e, "; expected 0 .. ", most);
    loads[e] += all[i];
  }
  return hottest(loads, ep_ranks, rule);
}

Tensor renumbered(const Tensor& ids, const HotExperts& hot, std::span<const int> of, Stream& stream) {
  const HostRead read = read_to_host("routing: ids", ids, stream);
  const std::span<const int32_t> known = read.wait<int32_t>();
  const size_t part = known.size() / of.size();
  std::vector<int32_t> numbers;
  numbers.reserve(known.size());
  for (size_t i = 0; i < known.size(); ++i)
    numbers.push_back(known[i] < 0 ? -1 : static_cast<int32_t>(hot.number(known[i], of[i / part])));
  return Tensor::from<int32_t>(numbers, ids.shape(), ids.device(), Category::communication);
}

}  // namespace hexad::ep
