// Conversion of items on several threads, with results in the order of the items.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "framework/data/workers.h"

namespace hexad::data {

/// Converts items on the threads of Workers. Results arrive in the order of the items, on the thread of the caller.
/// They do not depend on the number of threads.
template <class In, class Out>
class OrderedJobs {
 public:
  using Convert = std::function<Out(In&& item)>;
  using Take = std::function<void(Out&& result)>;

  /// Uses the threads of `workers`, which must outlive this object. `convert` must be thread-safe. `take` receives the
  /// results during add() and finish(). Items are passed to the threads in batches of about `batch_bytes`.
  OrderedJobs(Workers& workers, int64_t batch_bytes, Convert convert, Take take)
      : workers_(workers),
        batch_bytes_(batch_bytes),
        max_in_flight_(2 * workers.count() + 1),
        convert_(std::move(convert)),
        take_(std::move(take)) {}
  /// Waits for the batches in flight. Results that have not been taken are lost.
  ~OrderedJobs() {
    cancelled_ = true;
    std::unique_lock lock(mutex_);
    completed_.wait(lock,
                    [&] { return std::ranges::all_of(in_flight_, [](const auto& batch) { return batch->done; }); });
  }
  OrderedJobs(const OrderedJobs&) = delete;
  OrderedJobs& operator=(const OrderedJobs&) = delete;

  /// Adds an item. `bytes` is the size of the item's data outside of the item object. Waits while too many items are
  /// pending. Rethrows exceptions of `convert` and `take`.
  void add(In&& item, int64_t bytes) {
    if (!filling_) filling_ = std::make_unique<Batch>();
    filling_->items.push_back(std::move(item));
    filling_->bytes += bytes + static_cast<int64_t>(sizeof(In));  // empty items fill memory, too
    if (filling_->bytes >= batch_bytes_) submit();
  }
  /// Waits until all items are converted and passed to `take`. Rethrows like add().
  void finish() {
    if (filling_) submit();
    while (!in_flight_.empty()) take_first();
  }

 private:
  struct Batch {
    std::vector<In> items = {};
    std::vector<Out> results = {};
    int64_t bytes = 0;
    std::exception_ptr error = nullptr;
    bool done = false;
  };

  // Maximum bytes of all batches in flight, to limit the memory of large items. A single batch may exceed this maximum.
  static constexpr int64_t max_bytes_in_flight = int64_t{256} << 20;

  bool is_full() const {
    return in_flight_.size() >= max_in_flight_ ||
           (!in_flight_.empty() && bytes_in_flight_ + filling_->bytes > max_bytes_in_flight);
  }

  void submit() {
    while (is_full()) take_first();
    Batch& batch = *in_flight_.emplace_back(std::move(filling_));
    bytes_in_flight_ += batch.bytes;
    try {
      workers_.submit([this, &batch] { convert(batch); });
    } catch (...) {  // the system lacks memory; no thread will complete the batch
      bytes_in_flight_ -= batch.bytes;
      in_flight_.pop_back();
      throw;
    }
  }

  // Converts the items of a batch. Skips the remaining items if the destructor has set cancelled_. Runs on a worker
  // thread.
  void convert(Batch& batch) {
    try {
      for (In& item : batch.items) {
        if (cancelled_) break;
        batch.results.push_back(convert_(std::move(item)));
      }
    } catch (...) {
      batch.error = std::current_exception();
    }
    batch.items.clear();
    const std::lock_guard lock(mutex_);
    batch.done = true;
    completed_.notify_one();
  }

  // Waits for the oldest batch and passes its results to take_.
  void take_first() {
    {
      std::unique_lock lock(mutex_);
      completed_.wait(lock, [&] { return in_flight_.front()->done; });
    }
    const std::unique_ptr<Batch> batch = std::move(in_flight_.front());
    in_flight_.pop_front();
    bytes_in_flight_ -= batch->bytes;
    if (batch->error) std::rethrow_exception(batch->error);
    for (Out& result : batch->results) take_(std::move(result));
  }

  Workers& workers_;
  int64_t batch_bytes_;
  size_t max_in_flight_;
  Convert convert_;
  Take take_;
  std::unique_ptr<Batch> filling_;                // null if no item has been added since the last batch
  std::deque<std::unique_ptr<Batch>> in_flight_;  // in the order of the items; used only on the caller's thread
  int64_t bytes_in_flight_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;  // guards Batch::done
  std::condition_variable completed_;
};

}  // namespace hexad::data
