#include "framework/io/run_lock.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "framework/base/blocked_signals.h"
#include "framework/base/error.h"
#include "framework/base/path_problem.h"
#include "framework/io/file_lock.h"

namespace hexad::io {

using namespace base;

namespace {

/// Contents of the lock file: one line with these fields, in this order.
struct Owner {
  std::string host, pid;
  std::string boot;   // boot id of the machine, because several machines may have the same host name; "-" if unknown
  std::string token;  // unique for each acquisition, because the operating system reuses process ids
  uint64_t beat = 0;

  bool is(const Owner& o) const { return host == o.host && pid == o.pid && token == o.token; }
  bool on_machine_of(const Owner& o) const { return host == o.host && (boot.empty() || boot == o.boot); }
};

std::string host_name() {
  std::array<char, 256> name{};
  require(::gethostname(name.data(), name.size() - 1) == 0,
          "[run lock] the name of this host cannot be read: gethostname: ", std::strerror(errno));
  return name.data();
}

std::string boot_of_machine() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? "-" : id;
}

Owner me() {
  std::random_device random;
  return {host_name(), std::to_string(::getpid()), boot_of_machine(), fmt::format("{:08x}{:08x}", random(), random())};
}

/// Returns the current contents of the file. Each call opens the file again, so that a network file system reads them
/// from the server.
Owner read_owner(const std::string& path) {
  std::ifstream in(path);
  Owner owner;
  in >> owner.host >> owner.pid >> owner.boot >> owner.token >> owner.beat;
  return owner;
}

/// Writes the owner. Other jobs may read the file at any time. Therefore all texts of one owner have the same length,
/// and the file is not emptied first.
void write_owner(int fd, const std::string& path, const Owner& owner) {
  const std::string text =
      fmt::format("{} {} {} {} {:020}\n", owner.host, owner.pid, owner.boot, owner.token, owner.beat);
  const bool written = ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                       ::ftruncate(fd, static_cast<off_t>(text.size())) == 0 && ::fsync(fd) == 0;
  if (!written) fail(ExitCode::resource, path, ": cannot be written: ", std::strerror(errno));
}

/// True if the locked file is still the file at `path`. False if the former owner has removed the file in the meantime.
bool is_current(int fd, const std::string& path) {
  struct stat mine {
  }, named{};
  return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

/// True if the owner and the beat in the file do not change during `timing.patience`.
bool abandoned(const std::string& path, const Owner& former, const LockTiming& timing, const base::FileWork& work) {
  const auto end = std::chrono::steady_clock::now() + timing.patience;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(timing.beat / 5);
    work.moved(path);
    const Owner now = read_owner(path);
    if (!now.is(former) || now.beat != former.beat) return false;
  }
  return true;
}

}  // namespace

/// Holds the lock file, renews it periodically, and removes it at the end if no other job has taken the lock over.
class RunLock::Holder {
 public:
  Holder(std::string path, FileLock lock, Owner owner, std::chrono::milliseconds beat)
      : path_(std::move(path)), lock_(std::move(lock)), owner_(std::move(owner)) {
    write_owner(lock_.descriptor(), path_, owner_);
    const base::BlockedSignals blocked;
    thread_ = std::jthread([this, beat](const std::stop_token& stop) { renew_until(stop, beat); });
  }
  ~Holder() {
    thread_.request_stop();
    thread_.join();
    if (look()) ::unlink(path_.c_str());
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  const std::string& path() const { return path_; }

  /// Reads the file. Returns false if this or an earlier call has found that another job has taken the lock over. A
  /// missing or unreadable file does not count as a takeover.
  bool look() {
    const Owner now = read_owner(path_);
    const std::lock_guard guard(mutex_);
    if (!successor_ && !now.token.empty() && !now.is(owner_)) successor_ = now;
    return !successor_;
  }

  void require_held() const {
    const std::lock_guard guard(mutex_);
    if (successor_)
      fail(ExitCode::usage, path_, ": was taken over by process ", successor_->pid, " on host ", successor_->host,
           " while this job did not renew it; this job ends, because two jobs must not write to one run directory");
  }

 private:
  void renew_until(const std::stop_token& stop, std::chrono::milliseconds beat) {
    std::mutex sleep;
    std::unique_lock lock(sleep);
    std::condition_variable_any wake;
    while (!wake.wait_for(lock, stop, beat, [&] { return stop.stop_requested(); })) {
      if (!look()) return;
      ++owner_.beat;
      try {
        write_owner(lock_.descriptor(), path_, owner_);
      } catch (const Error&) {
        // The file is written again after the next wait. look() detects a takeover by another job in the meantime.
      }
    }
  }

  const std::string path_;
  FileLock lock_;
  Owner owner_;  // only the renewing thread changes owner_.beat
  mutable std::mutex mutex_;
  std::optional<Owner> successor_;
  std::jthread thread_;
};

RunLock RunLock::acquire(const std::string& run_directory, const std::function<void(const std::string&)>& note,
                         LockTiming timing, const base::FileWork& work) {
  std::error_code error;
  std::filesystem::create_directories(run_directory, error);
  if (error) fail(creation_exit_code(error), run_directory, ": the run directory cannot be created: ", error.message());
  const std::string path = run_directory + "/lock";
  const Owner mine = me();
  const auto in_use = [&](const Owner& owner) {
    fail(ExitCode::usage, run_directory, ": in use by process ", owner.pid.empty() ? "(not known yet)" : owner.pid,
         " on host ", owner.host.empty() ? mine.host : owner.host,
         "; wait for it to end, or choose another run directory");
  };
  for (;;) {
    std::optional<FileLock> lock = FileLock::take(path, FileLock::Mode::exclusive, /*create=*/true);
    if (!lock) in_use(read_owner(path));
    if (!is_current(lock->descriptor(), path)) continue;
    const Owner former = read_owner(path);
    const bool elsewhere = !former.host.empty() && !former.on_machine_of(mine);
    if (elsewhere) {
      const auto seconds = std::chrono::duration<double>(timing.patience).count();
      note(cat(path, ": held by process ", former.pid, " on host ", former.host,
               ", which may have ended; this job watches the lock for ", seconds, " s"));
      if (!abandoned(path, former, timing, work)) in_use(read_owner(path));
    }
    auto holder = std::make_unique<Holder>(path, std::move(*lock), mine, timing.beat);
    if (elsewhere) {
      // A third job, on another machine, may also have watched and written the file. The job that wrote the file last
      // has the lock.
      std::this_thread::sleep_for(timing.beat / 5);
      if (!holder->look()) in_use(read_owner(path));
      note(cat(path, ": taken over from process ", former.pid, " on host ", former.host, ", which did not renew it"));
    }
    return RunLock(std::move(holder));
  }
}

RunLock::RunLock(std::unique_ptr<Holder> holder) : holder_(std::move(holder)) {}
RunLock::RunLock(RunLock&&) noexcept = default;
RunLock::~RunLock() = default;

const std::string& RunLock::path() const { return holder_->path(); }

void RunLock::require_held() const { holder_->require_held(); }

void RunLock::require_held_now() {
  holder_->look();
  holder_->require_held();
}

}  // namespace hexad::io
