#include "framework/data/source.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::data {
using namespace base;

Batch::Batch(int64_t count_, int64_t context_) : count(count_), context(context_) {
  for (auto* column : {&ids, &targets, &first, &last, &positions}) column->resize(count * context);
}

Row Batch::row(int64_t sequence) {
  const auto part = [&](std::vector<int32_t>& column) {
    return std::span(column).subspan(sequence * context, context);
  };
  return {part(ids), part(targets), part(first), part(last)};
}

int64_t Batch::document_count() const {
  int64_t documents = 0;
  for (int64_t t = 0; t < count * context; ++t) {
    const int64_t position = t % context;
    const size_t i = t;
    if (first[i] == position) {
      const bool follows = position == 0 || last[i - 1] == position;
      if (!follows || last[i] <= position || last[i] > context) return 0;
      ++documents;
    } else if (position == 0 || position >= last[i - 1] || first[i] != first[i - 1] || last[i] != last[i - 1]) {
      return 0;
    }
    if (position + 1 == context && last[i] != context) return 0;
  }
  return documents;
}

Batch::Further Batch::further(int64_t distance) const {
  Further out;
  for (int64_t t = 0; t < count * context; ++t) {
    const int64_t end = t / context * context + last[t], other = t + distance;
    out.ids.push_back(ids[std::min(other, end - 1)]);
    out.targets.push_back(other < end ? targets[other] : ignored);
  }
  return out;
}

Batch Source::batch(int64_t begin, int64_t count) const {
  require(begin >= 0 && count >= 0 && count <= size() - begin, "[data] sequences [", begin, ", ", begin + count,
          ") are requested; expected a range in [0, ", size(), "]");
  Batch batch(count, context());
  for (int64_t s = 0; s < count; ++s) {
    fill(begin + s, batch.row(s));
    for (int64_t t = s * context(); t < (s + 1) * context(); ++t) {
      const size_t i = t;
      batch.positions[i] = static_cast<int32_t>(t - s * context()) - batch.first[i];
    }
  }
  return batch;
}

}  // namespace hexad::data
