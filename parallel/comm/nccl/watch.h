// Monitors the NCCL operations of a rank and detects ranks that are late or lost.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/error.h"
#include "parallel/comm/nccl/library.h"
#include "parallel/comm/nccl/timed_events.h"
#include "parallel/comm/traffic.h"

namespace hexad::comm::nccl {

/// A thread that checks communicators for errors, and measures the time of operations from the moment this rank has
/// reached them. At the first failure, the thread aborts all communicators, so that the card continues and no thread
/// hangs. It then calls `on_failure`, and no further operation is launched. Thread-safe.
class Watch {
 public:
  struct Options {
    double watchdog_seconds = 300;  // seconds of waiting until an operation or a call counts as hung; 0: never
    std::function<void(const base::Error&)> on_failure;
  };
  /// Starts the thread, which monitors the NCCL operations on card `ordinal`.
  Watch(const Library& library, int ordinal, int world_rank, Options options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// take() adds a communicator, release() removes it, and has() returns true if it is added. After a failure, the
  /// watch aborts all added communicators. Their handles are then invalid, and release() returns false.
  void take(ncclComm_t communicator);
  bool release(ncclComm_t communicator);
  bool has(ncclComm_t communicator);

  /// Marks the calling thread as inside a call that may wait for other ranks, such as an NCCL call. The constructor
  /// throws the error of an earlier failure.
  class HostCall {
   public:
    HostCall(Watch& watch, std::string what);
    ~HostCall();
    HostCall(const HostCall&) = delete;
    HostCall& operator=(const HostCall&) = delete;

   private:
    Watch& watch_;
    int64_t number_;
  };

  /// An operation launched between two events of a stream.
  struct Launch {
    std::string what;
    TrafficClass traffic;
    int64_t bytes = 0;  // bytes sent to other ranks
    std::shared_ptr<TrafficMeter> meter;
    TimedEvent begin{}, end{};  // recorded by CardRank::launch
  };
  void launched(cudaStream_t stream, Launch launch);

 private:
  using Clock = std::chrono::steady_clock;
  struct InFlight {
    Launch launch;
    double waits = 0;  // seconds for which this rank has waited for other ranks in the operation
  };
  struct Call {
    std::string what;
    double waits = 0;
  };
  void run();
  bool idle() const { return flights_.empty() && calls_.empty(); }
  void look(std::unique_lock<std::mutex>& lock, double seconds);
  /// Removes finished operations of a stream. Returns the name of the operation that hangs; empty if none hangs.
  std::string look_at(std::deque<InFlight>& flights, double seconds) const;
  void fail(std::unique_lock<std::mutex>& lock, base::ExitCode code, const std::string& why);
  Clock::duration interval() const;

  const Library& library_;
  const int ordinal_, world_rank_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ncclComm_t> communicators_;
  std::map<cudaStream_t, std::deque<InFlight>> flights_;
  std::map<int64_t, Call> calls_;
  int64_t next_call_ = 0;
  std::exception_ptr failed_;
  bool stopping_ = false;
  std::thread thread_;  // declared last: the thread uses all other members
};

}  // namespace hexad::comm::nccl
