#include "tools/check_cluster/measurements.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "framework/base/atomic_file.h"
#include "framework/base/clock.h"
#include "parallel/comm/node_groups.h"
#include "parallel/comm/text_collectives.h"
#include "tools/check_cluster/folder_file.h"
#include "tools/check_cluster/wait_for_each.h"

namespace hexad::check_cluster {
namespace {

using base::cat;
using base::now;
namespace fs = std::filesystem;

constexpr auto poll_pause = std::chrono::milliseconds(10);

std::vector<int> participants_of(const comm::ProcessGroup& world) {
  const comm::NodeGrid grid(world.node_of_rank());
  std::vector<int> ranks;
  for (int node = 0; node < grid.nodes(); ++node) ranks.push_back(grid.rank(node, 0));
  if (ranks.size() == 1 && world.size() > 1) ranks.push_back(grid.rank(0, 1));
  return ranks;
}

// Returns the other ranks whose files `rank` reads: at most max_folder_peers ranks that follow `rank` in the list,
// cyclically.
std::vector<int> peers_of(const std::vector<int>& participants, int rank) {
  const auto count = static_cast<std::ptrdiff_t>(participants.size());
  const auto own = std::find(participants.begin(), participants.end(), rank) - participants.begin();
  std::vector<int> peers;
  for (std::ptrdiff_t i = 1; i < count && i <= max_folder_peers; ++i) peers.push_back(participants[(own + i) % count]);
  return peers;
}

// Returns the contents of a file; nullopt if it cannot be read. On a network file system, a file cannot be read for a
// moment after another node has replaced it (ESTALE).
std::optional<std::string> contents_at(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  std::string text(max_file_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return std::nullopt;
  text.resize(file.gcount());
  return text;
}

[[noreturn]] void fail_file(const fs::path& path, const char* what) {
  base::fail(base::ExitCode::resource, path.string(), ": cannot be ", what, ": ", std::strerror(errno));
}

void write_and_sync(const fs::path& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail_file(path, "created");
  size_t written = 0;
  ssize_t count = 0;
  while (written < text.size() && (count = ::write(fd, text.data() + written, text.size() - written)) > 0)
    written += count;
  const bool done = written == text.size() && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!done) fail_file(path, "written and flushed");
}

/// The check of the folder on one rank. Barriers over all ranks separate the steps of the check. All ranks call the
/// same number of barriers.
class FolderCheck {
 public:
  FolderCheck(FolderFigure& figure, const fs::path& folder, int rank, std::vector<int> peers, double patience)
      : figure_(figure), folder_(folder), rank_(rank), peers_(std::move(peers)), patience_(patience) {}
  ~FolderCheck() {
    if (lock_ >= 0) ::close(lock_);
  }
  FolderCheck(const FolderCheck&) = delete;
  FolderCheck& operator=(const FolderCheck&) = delete;

  void write() {
    attempt([&] {
      const double began = now();
      std::error_code error;
      while (!fs::is_directory(folder_, error)) {
        if (now() - began > patience_)
          base::fail(base::ExitCode::resource, folder_.string(), ": was created by rank 0, but is not visible after ",
                     patience_, " s; expected a folder that all nodes share");
        std::this_thread::sleep_for(poll_pause);
      }
      figure_.free_bytes = static_cast<int64_t>(fs::space(folder_).available);
      const fs::path path = file_of(rank_), temporary = path.string() + ".new";
      const double opened = now();
      write_and_sync(temporary, contents_of(rank_, 1));
      const double synced = now();
      fs::rename(temporary, path);
      base::sync_folder(folder_.string());
      figure_.write_seconds = synced - opened;
      figure_.rename_seconds = now() - synced;
    });
  }

  void read_new_files() {
    attempt([&] {
      const auto late = wait_for_each(peers_.size(), patience_, [&](size_t i) {
        const std::optional<std::string> contents = contents_at(file_of(peers_[i]));
        return contents && is_contents_of(*contents, peers_[i], 1);
      });
      for (size_t i = 0; i < peers_.size(); ++i) {
        if (late[i])
          figure_.late_seconds = std::max(figure_.late_seconds, *late[i]);
        else
          figure_.missing.push_back(peers_[i]);
      }
    });
  }

  void replace() {
    attempt([&] { base::write_file(file_of(rank_).string(), contents_of(rank_, 2)); });
  }

  void read_replaced_files() {
    attempt([&] {
      std::vector<int> peers;
      for (const int peer : peers_)
        if (std::ranges::find(figure_.missing, peer) == figure_.missing.end()) peers.push_back(peer);
      std::vector<Seen> seen(peers.size(), Seen::nothing);
      const auto late = wait_for_each(peers.size(), patience_, [&](size_t i) {
        seen[i] = seen_of(peers[i]);
        return seen[i] == Seen::replaced || seen[i] == Seen::torn;
      });
      for (size_t i = 0; i < peers.size(); ++i) {
        if (seen[i] == Seen::nothing)
          base::fail(base::ExitCode::resource, file_of(peers[i]).string(), ": still cannot be read ", patience_,
                     " s after rank ", peers[i], " replaced it; expected its new contents");
        if (seen[i] == Seen::old)
          figure_.stale.push_back(peers[i]);
        else if (seen[i] == Seen::torn)
          figure_.torn.push_back(peers[i]);
        else
          figure_.stale_seconds = std::max(figure_.stale_seconds, *late[i]);
      }
    });
  }

  void hold_lock() {
    attempt([&] {
      open_lock();
      if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) figure_.lock_error = std::strerror(errno);
    });
  }

  void try_lock() {
    attempt([&] {
      open_lock();
      if (::flock(lock_, LOCK_EX | LOCK_NB) == 0)
        figure_.lock_ignored = true;
      else if (errno != EWOULDBLOCK)
        figure_.lock_error = std::strerror(errno);
    });
  }

 private:
  fs::path file_of(int rank) const { return folder_ / cat("rank-", rank); }

  void open_lock() {
    lock_ = ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock_ < 0) fail_file(folder_ / "lock", "opened");
  }

  // Runs a step if no earlier step has failed.
  void attempt(const std::function<void()>& step) {
    if (!figure_.error.empty()) return;
    try {
      step();
    } catch (const std::exception& e) {
      figure_.error = e.what();
    }
  }

  // Contents that this rank reads from a file that a peer has replaced: none (the file is unreadable), the contents
  // before the replacement, the new contents, or any other contents.
  enum class Seen : uint8_t { nothing, old, replaced, torn };
  Seen seen_of(int peer) const {
    const std::optional<std::string> contents = contents_at(file_of(peer));
    if (!contents) return Seen::nothing;
    if (is_contents_of(*contents, peer, 1)) return Seen::old;
    return is_contents_of(*contents, peer, 2) ? Seen::replaced : Seen::torn;
  }

  FolderFigure& figure_;
  fs::path folder_;
  int rank_;
  std::vector<int> peers_;
  double patience_;
  int lock_ = -1;
};

}  // namespace

void check_folder(RankReport& report, const comm::ProcessGroup& world, device::Device device, const std::string& folder,
                  double patience) {
  const std::vector<int> participants = participants_of(world);
  const int rank = world.rank();
  const bool first = rank == 0;
  const bool joins = std::find(participants.begin(), participants.end(), rank) != participants.end();
  std::string made;  // rank 0: path of the new folder; empty if it cannot be created
  if (first) {
    made = (fs::path(folder) / ".hexad-check-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) {
      report.folder.emplace().error = cat(folder, ": cannot create a folder in it: ", std::strerror(errno));
      made.clear();
    }
  }
  const fs::path path = comm::broadcast_text(made, 0, world, device);
  if (path.empty()) return;
  if (joins) report.folder.emplace();
  const auto meet = [&] { world.barrier(device.context().compute()).wait(); };
  {
    FolderFigure unused;
    FolderCheck check(joins ? *report.folder : unused, path, rank, peers_of(participants, rank), patience);
    if (joins) check.write();
    meet();
    if (joins) check.read_new_files();
    meet();
    if (joins) check.replace();
    meet();
    if (joins) check.read_replaced_files();
    if (first) check.hold_lock();
    meet();
    if (joins && !first) check.try_lock();
    meet();
  }
  meet();
  std::error_code ignored;  // failing to remove the folder has no effect on runs
  if (first) fs::remove_all(path, ignored);
}

}  // namespace hexad::check_cluster
