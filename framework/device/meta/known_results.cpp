#include "framework/device/meta/known_results.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/base/error.h"

namespace hexad::device {

const KnownResults::Kept* KnownResults::find(const Key& key, std::span<const std::byte> operand) const {
  const auto [begin, end] = kept_.equal_range(key);
  for (auto known = begin; known != end; ++known)
    if (operand.empty() || std::memcmp(known->second.operand.data(), operand.data(), operand.size()) == 0)
      return &known->second;
  return nullptr;
}

void KnownResults::write(const Computation& computation, std::span<const std::span<std::byte>> results,
                         const std::function<void()>& compute) {
  Key key{computation.kernel, computation.numbers, computation.operand.size()};
  if (const Kept* known = find(key, computation.operand)) {
    for (size_t r = 0; r < results.size(); ++r) {
      base::require(known->results[r].size() == results[r].size(), "[meta device] result ", r, " of kernel ",
                    computation.kernel, " has ", results[r].size(), " bytes; expected ", known->results[r].size(),
                    ", as in an equal computation");
      std::ranges::copy(known->results[r], results[r].begin());
    }
    return;
  }
  // The operand is copied first, because a result may replace it.
  Kept kept{.operand = {computation.operand.begin(), computation.operand.end()},
            .results = {},
            .bytes = computation.operand.size()};
  compute();
  ++computed_;
  for (const std::span<std::byte> result : results) {
    kept.results.emplace_back(result.begin(), result.end());
    kept.bytes += result.size();
  }
  keep(std::move(key), std::move(kept));
}

void KnownResults::keep(Key key, Kept kept) {
  if (kept.bytes > max_bytes_) return;
  for (; bytes_ + kept.bytes > max_bytes_; by_age_.pop_front()) {
    bytes_ -= by_age_.front()->second.bytes;
    kept_.erase(by_age_.front());
  }
  bytes_ += kept.bytes;
  by_age_.push_back(kept_.emplace(std::move(key), std::move(kept)));
}

}  // namespace hexad::device
