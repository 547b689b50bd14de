#include "framework/data/mixture_division.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/base/error.h"

namespace hexad::data {
using namespace base;
namespace {

// Returns integers whose sum is `total` and that differ by less than one from values proportional to the weights. The
// largest-remainder method first rounds all values down, and then increments the values with the largest remainders.
std::vector<int64_t> apportion(const std::vector<double>& weights, int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> quotas;
  std::vector<double> remainders;
  for (double w : weights) {
    const double exact = w / sum * static_cast<double>(total);
    quotas.push_back(static_cast<int64_t>(exact));
    remainders.push_back(exact - std::floor(exact));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  const int64_t left = total - std::accumulate(quotas.begin(), quotas.end(), int64_t{0});
  for (int64_t i = 0; i < left; ++i) ++quotas[order[i % order.size()]];
  return quotas;
}

}  // namespace

MixtureDivision::MixtureDivision(const std::vector<double>& weights) {
  require(!weights.empty(), "[mixture] there are no weights; expected at least one");
  for (size_t p = 0; p < weights.size(); ++p) {
    if (!(weights[p] > 0) || !std::isfinite(weights[p])) {
      fail(ExitCode::usage, "data.mixture: weight ", p, " is ", weights[p], ", expected a finite number above 0");
    }
  }
  quotas_ = apportion(weights, block_size);
  for (size_t p = 0; p < quotas_.size(); ++p) {
    if (quotas_[p] == 0) {
      fail(ExitCode::usage, "data.mixture: weight ", p, " (", weights[p], ") is below 1/", block_size,
           " of the sum of weights: no sequence would be drawn from this dataset; set a higher weight, or remove the "
           "dataset");
    }
  }
  // Assigns each slot to the part that is furthest below its proportion. Integer arithmetic gives the same result on
  // all machines.
  std::vector<int64_t> credit(weights.size(), 0), drawn(weights.size(), 0);
  for (int64_t slot = 0; slot < block_size; ++slot) {
    for (size_t p = 0; p < credit.size(); ++p) credit[p] += quotas_[p];
    const size_t p = std::max_element(credit.begin(), credit.end()) - credit.begin();
    credit[p] -= block_size;
    block_.push_back({static_cast<uint32_t>(p), static_cast<uint32_t>(drawn[p]++)});
  }
  for (size_t p = 0; p < drawn.size(); ++p)
    require(drawn[p] == quotas_[p], "[mixture] part ", p, " has ", drawn[p], " slots of a block; expected its quota, ",
            quotas_[p]);
}

MixtureDivision::Place MixtureDivision::place(int64_t index) const {
  const Slot slot = block_[index % block_size];
  return {slot.part, index / block_size * quotas_[slot.part] + slot.rank};
}

std::vector<int64_t> MixtureDivision::drawn(int64_t sequences) const {
  std::vector<int64_t> counts;
  for (const int64_t quota : quotas_) counts.push_back(sequences / block_size * quota);
  for (int64_t slot = 0; slot < sequences % block_size; ++slot) ++counts[block_[slot].part];
  return counts;
}

std::vector<int64_t> MixtureStart::drawn_until(int64_t sequences, const MixtureDivision& division) const {
  require(sequences >= sequence, "[mixture] draws are counted until sequence ", sequences,
          "; expected at least sequence ", sequence, ", from which the weights apply");
  require(drawn.empty() || drawn.size() == division.parts(), "[mixture] there are counts for ", drawn.size(),
          " parts; expected ", division.parts());
  std::vector<int64_t> counts = division.drawn(sequences - sequence);
  for (size_t p = 0; p < drawn.size(); ++p) counts[p] += drawn[p];
  return counts;
}

}  // namespace hexad::data
