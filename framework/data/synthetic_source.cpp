#include "framework/data/synthetic_source.h"

#include "framework/base/error.h"
#include "framework/base/philox.h"

namespace hexad::data {
using namespace base;

SyntheticSource::SyntheticSource(int64_t vocab_size, int64_t context, uint64_t seed)
    : vocab_size_(vocab_size), context_(context), seed_(seed) {
  require(vocab_size >= 1 && context >= 1, "[synthetic] vocab_size is ", vocab_size, ", context ", context,
          "; expected at least 1 for each");
}

void SyntheticSource::fill(int64_t index, const Row& row) const {
  const Philox random(seed_, Purpose::synthetic, "tokens");
  const auto token = [&](int64_t t) {
    return static_cast<int32_t>(
        random.below(static_cast<uint64_t>(index * context_ + t), static_cast<uint64_t>(vocab_size_)));
  };
  int32_t current = token(0);
  for (int64_t t = 0; t < context_; ++t) {
    const size_t i = t;
    row.ids[i] = current;
    row.targets[i] = current = token(t + 1);
    row.first[i] = 0;
    row.last[i] = static_cast<int32_t>(context_);
  }
}

}  // namespace hexad::data
