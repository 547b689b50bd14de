#include "framework/data/mixture_source.h"

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
  for (int64_t i = 0; i < left; ++i) ++quotas[order[static_cast<size_t>(i) % order.size()]];
  return quotas;
}

}  // namespace

MixtureSource::MixtureSource(std::vector<Part> parts) : parts_(std::move(parts)) {
  require(!parts_.empty(), "[mixture] there are no parts; expected at least one");
  std::vector<double> weights;
  for (const Part& part : parts_) {
    require(part.source->size() == endless && part.source->context() == context(), "[mixture] part ", weights.size(),
            " has ", part.source->size(), " sequences of ", part.source->context(),
            " tokens; expected endless sequences of ", context());
    if (!(part.weight > 0) || !std::isfinite(part.weight)) {
      fail(ExitCode::usage, "data.mixture: weight ", weights.size(), " is ", part.weight,
           ", expected a positive number");
    }
    weights.push_back(part.weight);
  }
  quotas_ = apportion(weights, block_size);
  for (size_t p = 0; p < quotas_.size(); ++p) {
    if (quotas_[p] == 0) {
      fail(ExitCode::usage, "data.mixture: weight ", p, " (", weights[p], ") is below 1/", block_size,
           " of the sum of weights: no sequence would be drawn from this dataset; set a higher weight or remove it");
    }
  }
  // Assigns each slot to the part that is furthest below its proportion. Integer arithmetic gives the same result on
  // all machines.
  std::vector<int64_t> credit(parts_.size(), 0), drawn(parts_.size(), 0);
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

MixtureSource::Place MixtureSource::place(int64_t index) const {
  const Slot slot = block_[index % block_size];
  return {slot.part, index / block_size * quotas_[slot.part] + slot.rank};
}

std::vector<int64_t> MixtureSource::drawn(int64_t sequences) const {
  std::vector<int64_t> counts;
  for (const int64_t quota : quotas_) counts.push_back(sequences / block_size * quota);
  for (int64_t slot = 0; slot < sequences % block_size; ++slot) ++counts[block_[slot].part];
  return counts;
}

int64_t MixtureSource::epoch(int64_t index) const {
  const Place at = place(index);
  return parts_[at.part].source->epoch(at.index);
}

void MixtureSource::fill(int64_t index, const Row& row) const {
  const Place at = place(index);
  parts_[at.part].source->fill(at.index, row);
}

ConcatenatedSource::ConcatenatedSource(std::vector<std::shared_ptr<const Source>> parts) : parts_(std::move(parts)) {
  require(!parts_.empty(), "[data] there are no sources to concatenate; expected at least one");
  for (const auto& part : parts_) {
    require(part->size() != endless && part->context() == context(), "[data] a concatenated source is ",
            part->size() == endless ? "endless" : "finite", ", with sequences of ", part->context(),
            " tokens; expected finite sources, with sequences of ", context(), " tokens, as in the first");
  }
}

int64_t ConcatenatedSource::size() const {
  int64_t total = 0;
  for (const auto& part : parts_) total += part->size();
  return total;
}

void ConcatenatedSource::fill(int64_t index, const Row& row) const {
  size_t p = 0;
  while (index >= parts_[p]->size()) index -= parts_[p++]->size();
  parts_[p]->fill(index, row);
}

}  // namespace hexad::data
