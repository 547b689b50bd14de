// Atomic replacement of files, the run lock, and detection of NaN and infinity in tensors.
#include <sys/mount.h>

#include <chrono>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/io/finite.h"
#include "framework/io/run_lock.h"
#include "tests/io/io_testing.h"

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(AtomicWrite, ReplacesAFileWhole) {
  const TempFolder folder;
  write_file(folder / "a", "old");
  write_file(folder / "a", std::string(3'000'000, 'n'));
  EXPECT_EQ(read_bytes(folder / "a"), std::string(3'000'000, 'n'));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicWrite, KillAtAnyPointLeavesTheOldOrTheNewFile) {
  int points = 0;
  for (bool died = true; died; ++points) {
    const TempFolder folder;
    write_file(folder / "a", "old");
    int left = points;
    died = in_child([&] {
             write_file(folder / "a", "new", [&](std::string_view) {
               if (left-- == 0) ::_exit(9);
             });
             return 0;
           }) == 9;
    const std::string text = read_bytes(folder / "a");
    EXPECT_TRUE(text == "old" || text == "new") << text;
    EXPECT_EQ(text == "new", points >= 2) << "at point " << points;
  }
  EXPECT_EQ(points, 4);  // write, sync, rename, and a run without fault
}

TEST(AtomicWrite, FailureLeavesNoTemporaryFile) {
  const TempFolder folder;
  write_file(folder / "a", "old");
  EXPECT_THROW(write_file(folder / "a", "new", [](std::string_view) { throw std::runtime_error("disk"); }),
               std::runtime_error);
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
  expect_error(ExitCode::resource, {"/missing/a", "cannot be created"}, [&] { write_file(folder / "missing/a", ""); });
}

TEST(AtomicWrite, MessageNamesTheNewFileIfOnlyTheFolderIsNotFlushed) {
  const TempFolder folder;
  write_file(folder / "a", "old");
  expect_error(ExitCode::resource, {folder / "a: is written, but may not survive a power cut: I/O error"}, [&] {
    write_file(folder / "a", "new", [](std::string_view point) {
      if (point == "file renamed") fail(ExitCode::resource, "I/O error");
    });
  });
  EXPECT_EQ(read_bytes(folder / "a"), "new");
}

TEST(RunLock, SecondJobGetsHostAndProcess) {
  const TempFolder folder;
  const RunLock lock = RunLock::acquire(folder / "run/nested");
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  expect_error(ExitCode::usage,
               {"run/nested: in use by process " + std::to_string(::getpid()), std::string("on host ") + host.data()},
               [&] { RunLock::acquire(folder / "run/nested"); });
  EXPECT_EQ(in_child([&] {
              try {
                RunLock::acquire(folder / "run/nested");
                return 0;
              } catch (const Error& error) {
                return static_cast<int>(error.code());
              }
            }),
            2);
}

TEST(RunLock, IsGoneAtTheEnd) {
  const TempFolder folder;
  { const RunLock lock = RunLock::acquire(folder.path()); }
  EXPECT_TRUE(names_in(folder.path()).empty());
  RunLock::acquire(folder.path());
}

TEST(RunLock, IsTakenOverFromADeadProcessOfThisHost) {
  const TempFolder folder;
  ASSERT_EQ(in_child([&] {
              const RunLock lock = RunLock::acquire(folder.path());
              ::_exit(7);  // like kill -9: no destructor runs
              return 0;
            }),
            7);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"lock"});
  const RunLock lock = RunLock::acquire(folder.path());
  EXPECT_NE(read_bytes(lock.path()).find(std::to_string(::getpid())), std::string::npos);
}

// Job on another machine, on a file system whose locks have no effect on other machines.
class JobElsewhere {
 public:
  explicit JobElsewhere(std::string path) : path_(std::move(path)) { beat(); }
  void beat() { write_bytes(path_, fmt::format("elsewhere 4711 another-boot token {:020}\n", ++beats_)); }

 private:
  std::string path_;
  int beats_ = 0;
};

constexpr LockTiming quick{.beat = std::chrono::milliseconds(20), .patience = std::chrono::milliseconds(100)};

// Patience longer than any test, so that only a change of the file can end the wait.
constexpr LockTiming patient{.beat = std::chrono::milliseconds(20), .patience = std::chrono::hours(1)};

TEST(RunLock, IsTakenOverFromAHostWithoutRenewals) {
  const TempFolder folder;
  for (const std::string left : {"elsewhere 4711\n", "elsewhere 4711 another-boot token 00000000000000000009\n"}) {
    write_bytes(folder / "lock", left);
    std::vector<std::string> notes;
    const RunLock lock = RunLock::acquire(
        folder.path(), [&](const std::string& text) { notes.push_back(text); }, quick);
    EXPECT_TRUE(read_bytes(lock.path()).find(cat(" ", ::getpid(), " ")) != std::string::npos);
    ASSERT_EQ(notes.size(), 2);
    EXPECT_EQ(
        notes[0],
        folder / "lock" +
            ": held by process 4711 on host elsewhere, which may have ended; this job watches the lock for 0.1 s");
    EXPECT_EQ(notes[1], folder / "lock" + ": taken over from process 4711 on host elsewhere, which did not renew it");
  }
}

TEST(RunLock, IsRefusedWhileAnotherHostRenewsIt) {
  const TempFolder folder;
  JobElsewhere job(folder / "lock");
  const auto beat_when_watched = [&](const std::string& note) {
    if (note.ends_with(" s")) job.beat();  // the watcher has read the file already
  };
  expect_error(ExitCode::usage, {"in use by process 4711 on host elsewhere; wait for it to end"},
               [&] { RunLock::acquire(folder.path(), beat_when_watched, patient); });
  EXPECT_TRUE(read_bytes(folder / "lock").starts_with("elsewhere 4711 "));
}

TEST(RunLock, DistinguishesMachinesOfTheSameName) {
  const TempFolder folder;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  write_bytes(folder / "lock", std::string(host.data()) + " 4711 another-boot token 1\n");
  std::vector<std::string> notes;
  RunLock::acquire(
      folder.path(), [&](const std::string& text) { notes.push_back(text); }, quick);
  EXPECT_EQ(notes.size(), 2);
}

TEST(RunLock, IsRenewedWhileItIsHeld) {
  const TempFolder folder;
  const RunLock lock = RunLock::acquire(
      folder.path(), [](const std::string&) {}, quick);
  const std::string first = read_bytes(lock.path());
  std::string later = first;
  while (later == first) later = read_bytes(lock.path());
  EXPECT_EQ(later.size(), first.size());
  EXPECT_EQ(later.substr(0, later.rfind(' ')), first.substr(0, first.rfind(' ')));
  EXPECT_NO_THROW(lock.require_held());
}

TEST(RunLock, FormerHolderFailsItsCheckAndLeavesTheFile) {
  const TempFolder folder;
  {
    RunLock lock = RunLock::acquire(
        folder.path(), [](const std::string&) {}, patient);
    const JobElsewhere other(folder / "lock");
    expect_error(ExitCode::usage, {folder / "lock: was taken over by process 4711 on host elsewhere"},
                 [&] { lock.require_held_now(); });
  }
  EXPECT_TRUE(read_bytes(folder / "lock").starts_with("elsewhere 4711 "));
}

TEST(RunLock, FormerHolderLearnsOfTheLossAtTheNextRenewal) {
  const TempFolder folder;
  const RunLock lock = RunLock::acquire(
      folder.path(), [](const std::string&) {}, quick);
  JobElsewhere other(folder / "lock");
  const auto held = [&] {
    try {
      lock.require_held();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  while (held()) other.beat();  // repeats the beat, because a renewal may overwrite it
}

TEST(RunLock, EmptyLockFileOfAKilledStarterIsTakenOver) {
  const TempFolder folder;
  write_bytes(folder / "lock", "");
  RunLock::acquire(folder.path());
}

TEST(RunLock, UnwritableRunDirectoryFailsAtTheStart) {
  const TempFolder folder;
  write_bytes(folder / "file", "");
  expect_error(ExitCode::resource, {folder / "file/run", "the run directory cannot be created"},
               [&] { RunLock::acquire(folder / "file/run"); });
  expect_error(ExitCode::resource, {folder / "file", "the run directory cannot be created"},
               [&] { RunLock::acquire(folder / "file"); });
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(in_child([&] {
              if (::getuid() == 0) {  // root may write everywhere
                fs::permissions(folder.path(), fs::perms::all);
                fs::permissions(folder / "closed", fs::perms::others_read | fs::perms::others_exec);
                if (::setuid(65534) != 0) return 4;
              }
              try {
                RunLock::acquire(folder / "closed");
                return 0;
              } catch (const Error& error) {
                return std::string(error.what()).find("Permission denied") != std::string::npos
                           ? static_cast<int>(error.code())
                           : 1;
              }
            }),
            4);
}

TEST(Finite, FirstBadElementIsNamed) {
  device::DeviceContext device;
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1, -2, 3, -inf, 5, NAN};
  const Tensor t = Tensor::from<float>(values, {2, 3}, device);
  EXPECT_EQ(first_non_finite(t), 3);
  EXPECT_EQ(first_non_finite(t.slice(1, 1, 3)), 3);  // rows (-2, 3) and (5, NaN)
  EXPECT_EQ(first_non_finite(t.slice(0, 0, 1)), std::nullopt);
  expect_error(ExitCode::numeric, {"step-00000100: 'layers.0.w' [2, 3] holds -inf at element 3"},
               [&] { require_finite(t, "step-00000100", "layers.0.w"); });
  std::vector<bf16> narrow{bf16(1.f), bf16(inf)};
  EXPECT_EQ(first_non_finite(Tensor::from<bf16>(narrow, {2}, device)), 1);
  std::vector<double> wide{1e300, NAN};
  EXPECT_EQ(first_non_finite(Tensor::from<double>(wide, {2}, device)), 1);
  std::vector<int32_t> integers{-1, 2};
  EXPECT_EQ(first_non_finite(Tensor::from<int32_t>(integers, {2}, device)), std::nullopt);
  EXPECT_EQ(first_non_finite(Tensor::empty({0}, Dtype::f32, device)), std::nullopt);
}

}  // namespace
}  // namespace hexad::io
