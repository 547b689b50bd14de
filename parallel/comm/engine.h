// The communication engine: a thread of a rank that owns the rank's transport and executes the operations of all its
// groups.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "framework/base/file_work.h"
#include "parallel/comm/hang_watch.h"
#include "parallel/comm/issue_queue.h"
#include "parallel/comm/jitter.h"
#include "parallel/comm/transport.h"

namespace hexad::comm {

using device::Stream;

/// Settings of the checks for hangs and for mismatched calls. They must be the same on all ranks.
struct Guards {
  /// Seconds without progress until an operation counts as hung; 0: never. The watchdog checks operations for which
  /// this rank is ready or waits. It skips operations that wait for a rank whose file work makes progress. It detects a
  /// hang at most watchdog_seconds / 16 seconds too late. The hung operation fails a few seconds after that with
  /// Error(communication). The error names the operation, the missing ranks and the ranks to blame. Time during which
  /// this process was stopped does not count.
  double watchdog_seconds = 300;
  /// True if ranks compare their calls before every operation. The comparison costs an additional small message to each
  /// peer.
  bool check_collectives = false;
};

class CommEngine {
 public:
  struct Options {
    Limits limits{};
    Guards guards{};
    /// Returns true once this process has been asked to end, for example by SIGTERM; null: never. From then on, a wait
    /// for a peer fails with Error(peer_lost) if the peer does not answer for a few seconds. The process exits with
    /// `peer_lost` if other ranks do not reach MPI_Init within five seconds of the request. May be called on any
    /// thread.
    std::function<bool()> asked_to_end{};
    Jitter jitter{};                                              // set only by tests and by `hexad verify`
    MakeMessagePlan make_message_plan = comm::make_message_plan;  // replaced only by tests and by `hexad verify`
  };
  /// Starts the engine's thread, which calls `connect` to make the transport, and destroys the transport at the end.
  /// Call the constructor on the rank's own thread. The engine polls more often while this thread waits for
  /// communication. During the lifetime of a RankThread, the engine also polls more often while this thread is blocked
  /// and another thread waits for communication. Rethrows exceptions of `connect`.
  CommEngine(std::function<std::unique_ptr<Transport>()> connect, Options options);
  /// Waits until all posted operations are done, even if the streams have not reached these operations yet. Ends the
  /// job instead if the engine has failed.
  ~CommEngine();
  CommEngine(const CommEngine&) = delete;
  CommEngine& operator=(const CommEngine&) = delete;

  const Topology& topology() const { return topology_; }
  /// Returns the smallest communicator number that is larger than the numbers of all groups of this rank. Ranks that
  /// make a group together use the maximum of their results.
  int next_communicator() const { return next_communicator_; }
  /// Marks all communicators up to `number` as used. Throws Error(communication) if the transport has no tags for
  /// `number`.
  void take_communicator(int number);
  const std::shared_ptr<TrafficMeter>& meter() const { return meter_; }
  /// Returns the object through which this rank reports its file work to other ranks.
  const base::FileWork& file_work() const { return file_work_; }
  /// Sets the guards: watchdog_seconds immediately, check_collectives for operations that are posted later. All ranks
  /// must call this function at the same point in their programs.
  void set_guards(const Guards& guards);
  /// Sets the limits. New window sizes apply immediately, new round sizes to operations that are posted later. All
  /// ranks must call this function at the same point in their programs.
  void limit(const Limits& limits);
  /// Sets the priorities. All ranks must call this function with the same values while only control traffic is in
  /// flight.
  void prioritize(const Priorities& priorities);

  /// Posts an operation, which may start once `stream` has done the work appended so far. `members` are the world ranks
  /// of the group named `group`, and `rank` is the index of this rank among them. Returns an event that is done
  /// once the operation is done. After a failure, every operation fails and the job ends. The rank's thread ends
  /// the job when it notices the failure. The engine ends the job if the job has not ended after five seconds.
  Event post(Channel channel, TrafficClass traffic, const std::string& group,
             std::shared_ptr<const std::vector<int>> members, int rank, Operation operation, Stream& stream);
  /// Calls `f` on the engine's thread, before operations that are posted later. `f` must not throw.
  void on_thread(std::function<void()> f) { command(std::move(f)); }
  /// Ends all ranks of the job with exit code `code`. If the engine's thread does not respond, ends only this process.
  [[noreturn]] void abort_job(int code);

 private:
  // A round in flight. Its key in running_ is also the token of its messages.
  struct Running {
    RequestPtr request;
    size_t round;
    size_t messages;
  };
  using Clock = std::chrono::steady_clock;  // monotonic
  using Command = std::function<void()>;
  // Queue of commands to the engine's thread. Streams and waiting threads may add commands even after this thread has
  // ended.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Command> commands;
    bool woken = false;   // true if the transport has called wake() since the last take_commands()
    bool closed = false;  // true if no thread executes commands any more
    void put(Command c);
    void wake();
  };
  void command(Command c) { inbox_->put(std::move(c)); }  // runs `c` on the engine's thread
  void run(const std::function<std::unique_ptr<Transport>()>& connect, std::exception_ptr& failed);
  void await_connection();
  void serve();
  bool take_commands(bool progress);  // returns false once the engine is stopping and no work remains
  void start_rounds();
  void start(const RequestPtr& request, size_t round);
  bool poll();
  void finish_round(uint64_t token);
  void complete(const RequestPtr& request, std::exception_ptr error);
  void fail(std::exception_ptr error);
  void rest(bool progress);
  void end_after_failure();
  // Watchdog (engine_watch.cpp):
  void watch();
  void look();
  void look_for_lost_ranks();
  void listen();
  Clock::duration look_interval() const;
  Clock::time_point next_look() const;
  struct Missing {  // peers for which an operation in flight waits
    std::vector<int> ranks{};
    bool taking = false;  // true: the peers take no message of this rank; false: no message from the peers arrives
  };
  Missing missing_peers(const Request& request) const;
  Standing standing() const;
  std::string describe(const Request& request) const;
  std::string report_missing(const Request& request) const;
  std::string report_hang(const Request& request) const;
  Link link_of(const Request& request) const;

  const Options options_;
  const std::thread::id rank_thread_ = std::this_thread::get_id();
  const base::FileWork file_work_;
  const std::shared_ptr<TrafficMeter> meter_ = std::make_shared<TrafficMeter>();
  Topology topology_;
  int next_communicator_ = 1, largest_communicator_ = 0;

  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  bool connected_ = false, stopping_ = false;  // guarded by the mutex of the inbox
  std::atomic<bool> check_collectives_;
  std::atomic<int64_t> round_bytes_;

  // Accessed only by the engine's thread:
  std::unique_ptr<Transport> transport_;
  IssueQueue queue_;
  std::unordered_map<uint64_t, Running> running_;
  uint64_t next_token_ = 0;
  int urgent_ = 0;   // number of requests for which the rank's own thread waits
  int awaited_ = 0;  // number of requests for which any thread waits
  bool ending_ = false;
  bool wakes_ = false;  // true if the transport wakes the engine when poll() has something to report
  int idle_polls_ = 0;
  std::vector<Transport::Done> done_;
  double watchdog_seconds_;
  std::optional<HangWatch> hang_watch_;
  Clock::time_point last_look_{}, last_listen_{};  // times of the last look() and listen() of the watchdog
  uint64_t seen_moves_ = 0;                        // `moves` of file_work_ at the last listen()
  int listens_without_progress_ = 0;  // number of calls of listen() since file work made progress or an operation ended
  int listens_with_missing_peers_ = 0;  // number of successive calls with missing peers after the request to end
  RequestPtr last_done_;
  Clock::time_point last_done_at_{};
  std::exception_ptr failed_;
  Clock::time_point failed_at_{};
  std::vector<RequestPtr> abandoned_;  // requests of a failed engine; the transport may still write to their tensors

  std::thread thread_;  // declared last: the thread uses all other members
};

}  // namespace hexad::comm
