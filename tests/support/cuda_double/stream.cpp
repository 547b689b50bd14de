#include "tests/support/cuda_double/stream.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "framework/base/blocked_signals.h"
#include "tests/support/cuda_double/connection.h"
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/host_waits.h"

using namespace hexad::cuda_double;

namespace {

// Returns the mutex of streams(). A wait for a whole device locks this mutex while it lists the device's streams. Other
// threads may make and destroy streams of the device at the same time. The mutex is never destroyed, because contexts
// in static variables end later.
std::mutex& streams_mutex() {
  static std::mutex& m = *new std::mutex;
  return m;
}
std::map<cudaStream_t, std::shared_ptr<CUstream_st>>& streams() {
  static auto& all = *new std::map<cudaStream_t, std::shared_ptr<CUstream_st>>;
  return all;
}

std::optional<uint64_t> jitter_seed() {
  const char* text = std::getenv("HEXAD_CUDA_DOUBLE_JITTER");
  if (!text) return {};
  static std::atomic<uint64_t> made{0};
  return std::strtoull(text, nullptr, 10) + (made++ << 32);
}

}  // namespace

struct CUstream_st {
  explicit CUstream_st(int on_device)
      : device(on_device), connection(connection_for(on_device)), seed(jitter_seed()), random(seed.value_or(0)) {
    const hexad::base::BlockedSignals blocked;
    thread = std::thread([this] { loop(); });
  }
  ~CUstream_st() {  // waits for the stream's work
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  // Time at which the connection counts work as begun, so that its next work may begin. For `runs`, this is the start
  // of the work. For `waits`, this is the end of the work. Waiting for an event thus delays all streams of the
  // connection.
  enum class Kind : uint8_t { runs, waits };
  void push(std::function<void()> f, Kind kind = Kind::runs) {
    {
      std::lock_guard lock(mutex);
      work.push_back({std::move(f), kind, connection->append()});
      ++pushed;
    }
    changed.notify_all();
  }
  bool empty() {
    std::lock_guard lock(mutex);
    return finished == pushed;
  }
  void wait_for_work_so_far() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this, last = pushed] { return finished >= last; });
  }

  const int device;

 private:
  struct Work {
    std::function<void()> run;
    Kind kind;
    int64_t number;  // number of the work in its connection
  };

  void delay() {
    if (!seed || random() % 4 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }

  void loop() {
    static_cast<void>(cudaSetDevice(device));
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopping || !work.empty(); });
      if (work.empty()) return;
      Work next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      connection->await_turn(next.number);
      if (next.kind == Kind::runs) connection->begin(next.number);
      delay();
      try {
        next.run();
      } catch (const std::exception& e) {
        break_device(device, e.what());
      }
      if (next.kind == Kind::waits) connection->begin(next.number);
      next.run = nullptr;
      lock.lock();
      ++finished;
      changed.notify_all();
    }
  }

  const std::shared_ptr<Connection> connection;
  const std::optional<uint64_t> seed;
  std::minstd_rand random;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> work;
  int64_t pushed = 0, finished = 0;
  bool stopping = false;
  std::thread thread;
};

namespace hexad::cuda_double {

void enqueue(cudaStream_t stream, std::function<void()> work) {
  stream->push([device = stream->device, work = std::move(work)] {
    if (state_of(device) == cudaSuccess) work();
  });
}

int device_of(cudaStream_t stream) { return stream->device; }

cudaError_t synchronize_device(int device) {
  std::vector<std::shared_ptr<CUstream_st>> its;
  {
    std::lock_guard lock(streams_mutex());
    for (const auto& [handle, s] : streams())
      if (s->device == device) its.push_back(s);
  }
  for (const auto& s : its) s->wait_for_work_so_far();
  return state_of(device);
}

}  // namespace hexad::cuda_double

// One record of an event. Each later record makes a new object, so that a wait is not affected by later records.
struct Recorded {
  std::mutex mutex;
  std::condition_variable changed;
  bool passed = false;
  std::chrono::steady_clock::time_point at{};
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::mutex mutex;
  std::shared_ptr<Recorded> recorded;

  std::shared_ptr<Recorded> latest() {
    std::lock_guard lock(mutex);
    return recorded;
  }
};

namespace {

void wait_for(Recorded& r) {
  std::unique_lock lock(r.mutex);
  r.changed.wait(lock, [&] { return r.passed; });
}

bool has_passed(Recorded& r) {
  std::lock_guard lock(r.mutex);
  return r.passed;
}

// True for a stream that exists. The double has no default stream: using the default stream is an error.
bool is_stream(cudaStream_t stream) {
  std::lock_guard lock(streams_mutex());
  return streams().count(stream) != 0;
}

}  // namespace

extern "C" {

// Priorities have no effect here.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (flags != cudaStreamNonBlocking) return set_last_error(cudaErrorInvalidValue);
  if (const cudaError_t e = state_of(current_device()); e != cudaSuccess) return e;
  auto made = std::make_shared<CUstream_st>(current_device());
  *stream = made.get();
  std::lock_guard lock(streams_mutex());
  streams().emplace(*stream, std::move(made));
  return cudaSuccess;
}

// Waits on the host for the stream's work. CUDA would end the stream later, without waiting.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  std::shared_ptr<CUstream_st> ended;  // destroyed outside the lock
  std::lock_guard lock(streams_mutex());
  const auto it = streams().find(stream);
  if (it == streams().end()) return set_last_error(cudaErrorInvalidResourceHandle);
  ended = std::move(it->second);
  streams().erase(it);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (!is_stream(stream)) return set_last_error(cudaErrorInvalidResourceHandle);
  count_host_wait(__func__);
  stream->wait_for_work_so_far();
  return state_of(stream->device);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (!is_stream(stream)) return set_last_error(cudaErrorInvalidResourceHandle);
  if (const cudaError_t e = state_of(stream->device); e != cudaSuccess) return e;
  return stream->empty() ? cudaSuccess : set_last_error(cudaErrorNotReady);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  *device = stream->device;
  return cudaSuccess;
}

// Appends a wait for the latest record of the event. An event that was never recorded delays nothing.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (!is_stream(stream)) return set_last_error(cudaErrorInvalidResourceHandle);
  if (const auto recorded = event->latest())
    stream->push([recorded] { wait_for(*recorded); }, CUstream_st::Kind::waits);
  return state_of(stream->device);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  *event = new CUevent_st;
  (*event)->device = current_device();
  (*event)->timed = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (!is_stream(stream) || event->device != stream->device) return set_last_error(cudaErrorInvalidResourceHandle);
  const auto recorded = std::make_shared<Recorded>();
  {
    std::lock_guard lock(event->mutex);
    event->recorded = recorded;
  }
  stream->push([recorded] {
    {
      std::lock_guard lock(recorded->mutex);
      recorded->passed = true;
      recorded->at = std::chrono::steady_clock::now();
    }
    recorded->changed.notify_all();
  });
  return state_of(stream->device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (const cudaError_t e = state_of(event->device); e != cudaSuccess) return e;
  const auto recorded = event->latest();
  return !recorded || has_passed(*recorded) ? cudaSuccess : set_last_error(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  count_host_wait(__func__);
  if (const auto recorded = event->latest()) wait_for(*recorded);
  return state_of(event->device);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (!start->timed || !end->timed) return set_last_error(cudaErrorInvalidResourceHandle);
  const auto from = start->latest(), to = end->latest();
  if (!from || !to) return set_last_error(cudaErrorInvalidResourceHandle);
  if (!has_passed(*from) || !has_passed(*to)) return set_last_error(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return cudaSuccess;
}

}  // extern "C"
