#include "layers/moe/router/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hexad::moe {
namespace {

struct Slot {
  int64_t index;  // into ids
  double score;
};

}  // namespace

int64_t drop_over_capacity(const Tensor& ids, const Tensor& scores, int64_t scope_tokens, double factor,
                           DropRule rule) {
  const int64_t tokens = ids.dim(0), top_k = ids.dim(1), experts = scores.dim(1);
  int32_t* id = ids.data<int32_t>();
  int64_t dropped = 0;
  std::vector<std::vector<Slot>> queues(static_cast<size_t>(experts));
  with_dtype<float, double>("drop_over_capacity", scores.dtype(), [&]<class T>() {
    const T* score = scores.data<T>();
    for (int64_t begin = 0; begin < tokens; begin += scope_tokens) {
      const int64_t end = std::min(tokens, begin + scope_tokens);
      for (auto& q : queues) q.clear();
      int64_t valid = 0;
      for (int64_t t = begin; t < end; ++t) {
        bool any = false;
        for (int64_t k = 0; k < top_k; ++k) {
          const int32_t e = id[t * top_k + k];
          if (e < 0) continue;
          any = true;
          // A NaN would make the order meaningless; it goes last.
          const auto s = static_cast<double>(score[t * experts + e]);
          queues[static_cast<size_t>(e)].push_back(
              {t * top_k + k, std::isnan(s) ? -std::numeric_limits<double>::infinity() : s});
        }
        valid += any;
      }
      const double mean = static_cast<double>(top_k * valid) / static_cast<double>(experts);
      // Compared before the cast: a huge factor fits no integer.
      const auto capacity = static_cast<int64_t>(std::min(static_cast<double>(valid), std::ceil(factor * mean)));
      for (auto& q : queues) {
        if (static_cast<int64_t>(q.size()) <= capacity) continue;
        // The queue is in token order, so a stable sort leaves earlier tokens first among equals.
        if (rule == DropRule::probability)
          std::stable_sort(q.begin(), q.end(), [](const Slot& a, const Slot& b) { return a.score > b.score; });
        for (size_t i = static_cast<size_t>(capacity); i < q.size(); ++i, ++dropped) id[q[i].index] = -1;
      }
    }
  });
  return dropped;
}

}  // namespace hexad::moe
