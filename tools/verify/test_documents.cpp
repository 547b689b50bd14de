#include "tools/verify/test_documents.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "framework/base/philox.h"

namespace hexad::verify {
namespace {

using base::Philox;
using base::Purpose;

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed, Purpose::synthetic, "documents") {}
  int32_t below(int64_t bound) { return static_cast<int32_t>(random_.below(drawn_++, static_cast<uint64_t>(bound))); }

 private:
  Philox random_;
  uint64_t drawn_ = 0;
};

bool has_targets(int64_t sequence) { return sequence % 5 != 1; }

}  // namespace

void FixedSource::fill(int64_t index, const data::Row& row) const {
  const int64_t begin = index % rows_.count * rows_.context;
  const auto copy = [&](const std::vector<int32_t>& from, std::span<int32_t> to) {
    std::copy_n(from.begin() + begin, rows_.context, to.begin());
  };
  copy(rows_.ids, row.ids), copy(rows_.targets, row.targets);
  copy(rows_.first, row.first), copy(rows_.last, row.last);
}

FixedSource documents(int64_t sequences, int64_t context, int64_t vocab, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> left;  // unused ids of the vocabulary
  const auto refill = [&] {
    left.resize(vocab);
    std::iota(left.begin(), left.end(), 0);
  };
  const auto next_id = [&] {
    if (left.empty()) refill();
    const auto at = left.begin() + random.below(static_cast<int64_t>(left.size()));
    const int32_t id = *at;
    left.erase(at);
    return id;
  };
  data::Batch batch(sequences, context);
  for (int64_t s = 0; s < sequences; ++s) {
    const data::Row row = batch.row(s);
    if (s % 2 == 0 || static_cast<int64_t>(left.size()) < context) refill();
    for (int64_t begin = 0; begin < context;) {
      const int64_t end = begin + 1 + random.below(context - begin);
      for (int64_t t = begin; t < end; ++t) {
        const size_t i = t;
        row.ids[i] = next_id();
        row.first[i] = static_cast<int32_t>(begin), row.last[i] = static_cast<int32_t>(end);
        row.targets[i] = data::ignored;
        if (t > begin && has_targets(s)) row.targets[i - 1] = row.ids[i];
      }
      begin = end;
    }
  }
  return FixedSource(std::move(batch));
}

FixedSource documents_of(const Recipe& recipe) {
  return documents(3 * recipe.batch.global, recipe.model.context, recipe.model.vocab);
}

FixedSource cut_further(const data::Source& source, int64_t sequences, uint64_t seed) {
  Random random(seed);
  const int64_t context = source.context();
  data::Batch batch = source.batch(0, std::min(sequences, source.size()));
  for (int64_t s = 0; s < batch.count; ++s) {
    const data::Row row = batch.row(s);
    for (int64_t begin = 0; begin < context;) {
      const int64_t end = begin + 1 + random.below(context - begin);
      for (int64_t t = begin; t < end; ++t) {
        const size_t i = t;
        row.first[i] = std::max(row.first[i], static_cast<int32_t>(begin));
        row.last[i] = std::min(row.last[i], static_cast<int32_t>(end));
        if (t + 1 == end || !has_targets(s)) row.targets[i] = data::ignored;
      }
      begin = end;
    }
  }
  return FixedSource(std::move(batch));
}

}  // namespace hexad::verify
