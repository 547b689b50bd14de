#include "framework/data/tokenizers/bpe_model.h"

#include <cstddef>
#include <limits>
#include <queue>
#include <tuple>

namespace hexad::data {
namespace {

constexpr size_t few = 32;  // up to this number of symbols, a linear search is faster than a queue
constexpr PairTable::Value no_merge{std::numeric_limits<int32_t>::max(), -1};

PairTable::Value value_of(const PairTable& merges, int32_t left, int32_t right) {
  const PairTable::Value* found = merges.find(left, right);
  return found == nullptr ? no_merge : *found;
}

void merge_few(const PairTable& merges, std::vector<int32_t>& symbols) {
  PairTable::Value pairs[few];  // pairs[i]: the merge of symbols i and i + 1
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) pairs[i] = value_of(merges, symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].id < 0) break;
    symbols[best] = pairs[best].id;
    for (size_t i = best + 1; i + 1 < n; ++i) symbols[i] = symbols[i + 1], pairs[i - 1] = pairs[i];
    --n;
    if (best + 1 < n) pairs[best] = value_of(merges, symbols[best], symbols[best + 1]);
    if (best > 0) pairs[best - 1] = value_of(merges, symbols[best - 1], symbols[best]);
  }
  symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(n), symbols.end());
}

struct Candidate {
  int32_t rank;
  size_t at;
  int32_t left, right, id;

  bool operator>(const Candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
};

// Merges symbols in a linked list, with a queue of the pairs that can be merged. Skips pairs that no longer exist.
class LongMerge {
 public:
  LongMerge(const PairTable& merges, std::vector<int32_t>& symbols)
      : merges_(merges), symbols_(symbols), next_(symbols.size()), previous_(symbols.size()) {
    for (size_t i = 0; i < symbols.size(); ++i) next_[i] = i + 1, previous_[i] = i - 1;
    std::vector<Candidate> first;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      if (const PairTable::Value v = value_of(merges_, symbols[i], symbols[i + 1]); v.id >= 0)
        first.push_back({v.rank, i, symbols[i], symbols[i + 1], v.id});
    queue_ = Queue(std::greater<>(), std::move(first));
  }

  void run() {
    while (!queue_.empty()) {
      const Candidate c = queue_.top();
      queue_.pop();
      const size_t right = next_[c.at];
      if (symbols_[c.at] != c.left || right >= symbols_.size() || symbols_[right] != c.right) continue;
      symbols_[c.at] = c.id;
      symbols_[right] = gone;
      next_[c.at] = next_[right];
      if (next_[c.at] < symbols_.size()) previous_[next_[c.at]] = c.at;
      push(c.at);
      if (previous_[c.at] < symbols_.size()) push(previous_[c.at]);
    }
    std::erase(symbols_, gone);
  }

 private:
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;
  static constexpr int32_t gone = -1;

  void push(size_t at) {
    const size_t right = next_[at];
    if (right >= symbols_.size()) return;
    const PairTable::Value v = value_of(merges_, symbols_[at], symbols_[right]);
    if (v.id >= 0) queue_.push({v.rank, at, symbols_[at], symbols_[right], v.id});
  }

  const PairTable& merges_;
  std::vector<int32_t>& symbols_;
  std::vector<size_t> next_, previous_;
  Queue queue_;
};

}  // namespace

void merge_symbols(const PairTable& merges, std::vector<int32_t>& symbols) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= few) return merge_few(merges, symbols);
  LongMerge(merges, symbols).run();
}

}  // namespace hexad::data
