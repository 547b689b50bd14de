// The communication engine: one thread of a rank that owns its transport and moves everything its groups ask for.
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

/// Faults that the engine looks out for.
struct Guards {
  /// A hang is an operation that this rank is ready for, or waits for, and that makes no progress for this many
  /// seconds, unless it waits for a rank whose file work makes progress. It fails, up to four seconds later, with
  /// Error(communication) that names the operation, who is missing and who is to blame. Time in which this process was
  /// stopped does not count. 0: never. The same on all ranks.
  double watchdog_seconds = 300;
  /// Ranks compare what they call before every operation, which costs a small message more to each peer. The same on
  /// all ranks.
  bool check_collectives = false;
};

class CommEngine {
 public:
  struct Options {
    Limits limits{};
    Guards guards{};
    /// True once this process has been asked to end, as by SIGTERM; null: never. From then on a rank that is waited
    /// for and does not answer for some seconds counts as lost, and the wait fails with Error(peer_lost). A process
    /// that is asked while others do not come to MPI_Init ends with `peer_lost`. Called on any thread.
    std::function<bool()> asked_to_end{};
    Jitter jitter{};                                              // for tests
    MakeMessagePlan make_message_plan = comm::make_message_plan;  // for tests
  };
  /// Starts the thread; it calls `connect` first and destroys the transport last. The caller is the rank's own thread:
  /// while it waits for communication, the engine does not sleep. Throws what `connect` throws.
  CommEngine(std::function<std::unique_ptr<Transport>()> connect, Options options);
  /// Waits until everything posted is done, also what still waits for its stream, unless the engine has failed.
  ~CommEngine();
  CommEngine(const CommEngine&) = delete;
  CommEngine& operator=(const CommEngine&) = delete;

  const Topology& topology() const { return topology_; }
  /// A communicator is a number. next: the smallest that is above all of this rank's groups; take: marks `number` as
  /// used. Ranks that make a group together agree on the largest of their next numbers.
  int next_communicator() const { return next_communicator_; }
  void take_communicator(int number);
  const std::shared_ptr<TrafficMeter>& meter() const { return meter_; }
  /// Returns the object that announces this rank's file work.
  const base::FileWork& file_work() const { return file_work_; }
  /// Applies to operations posted from now on; all ranks call it at the same place of their programs.
  void set_guards(const Guards& guards);
  /// Windows change at once, sizes of rounds for operations posted from now on. All ranks call it at the same place of
  /// their programs.
  void limit(const Limits& limits);
  /// All ranks call it alike, while nothing but control traffic is in flight.
  void prioritize(const Priorities& priorities);

  /// Queues an operation that starts when the work so far on `stream` is done. After a failure every operation fails,
  /// and the job ends: the rank's thread ends it when it sees the failure, or the engine does five seconds later.
  Event post(Channel channel, TrafficClass traffic, const std::string& group,
             std::shared_ptr<const std::vector<int>> members, int rank, Operation operation, Stream& stream);
  /// Calls `f`, which does not throw, on the engine's thread, before anything that is posted later.
  void on_thread(std::function<void()> f) { command(std::move(f)); }
  /// Ends all ranks of the job.
  [[noreturn]] void abort_job(int code);

 private:
  // A round in flight; the tokens of its messages are its address.
  struct Running {
    RequestPtr request;
    size_t round;
    size_t messages;
  };
  using Clock = std::chrono::steady_clock;  // does not jump
  using Command = std::function<void()>;
  // Commands to the engine's thread from streams and threads that wait for operations; they may come after its end.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Command> commands;
    bool woken = false;   // by the transport
    bool closed = false;  // nobody runs them any more
    void put(Command c);
    void wake();
  };
  void command(Command c) { inbox_->put(std::move(c)); }  // runs it on the engine's thread
  void run(const std::function<std::unique_ptr<Transport>()>& connect, std::exception_ptr& failed);
  void await_connection();
  void serve();
  bool take_commands(bool progress);  // false: stopping, and nothing is left to do
  void start_rounds();
  void start(const RequestPtr& request, size_t round);
  bool poll();
  void finish_round(uint64_t token);
  void complete(const RequestPtr& request, std::exception_ptr error);
  void fail(std::exception_ptr error);
  void rest(bool progress);
  void end_after_failure();
  // The watchdog (engine_watch.cpp):
  void watch();
  void look();
  void look_for_lost_ranks();
  void listen();
  Clock::duration between_looks() const;
  Clock::time_point next_look() const;
  struct Missing {  // peers of an operation in flight
    std::vector<int> ranks{};
    bool taking = false;  // they do not take what is sent; else nothing comes from them
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
  bool connected_ = false, stopping_ = false;  // under its mutex
  std::atomic<bool> check_collectives_;
  std::atomic<int64_t> round_bytes_;

  // Used by the engine's thread alone:
  std::unique_ptr<Transport> transport_;
  IssueQueue queue_;
  std::unordered_map<uint64_t, Running> running_;
  uint64_t next_token_ = 0;
  int urgent_ = 0;   // requests that the rank's thread waits for
  int awaited_ = 0;  // that any thread waits for
  bool ending_ = false;
  bool wakes_ = false;  // the transport tells when polling it makes sense
  int idle_polls_ = 0;
  std::vector<Transport::Done> done_;
  double watchdog_seconds_;
  std::optional<HangWatch> hang_watch_;
  Clock::time_point looked_{}, listened_{};  // when the watchdog last did
  uint64_t seen_moves_ = 0;                  // of file_work_
  int quiet_listens_ = 0;                    // since it moved, or an operation ended
  int vain_listens_ = 0;                     // of a wait for others, since this process was asked to end
  RequestPtr last_done_;
  Clock::time_point last_done_at_{};
  std::exception_ptr failed_;
  Clock::time_point failed_at_{};
  std::vector<RequestPtr> abandoned_;  // after a failure: the transport may still write to their tensors

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hexad::comm
