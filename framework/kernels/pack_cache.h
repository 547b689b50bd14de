// Packed copies of weights.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

class PackCache {
 public:
  /// What a backend keeps per layout; it derives from this.
  struct Entry {
    virtual ~Entry() = default;
  };

  /// The entry under `key`, made by `make` at first use since clear().
  template <class Make>
  Entry& get(uint64_t key, Make&& make) {
    std::lock_guard lock(mutex_);
    auto& slot = entries_[key];
    if (!slot) slot = make();
    return *slot;
  }
  /// The weight has changed.
  void clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<Entry>> entries_;
};

}  // namespace hexad::kernels
