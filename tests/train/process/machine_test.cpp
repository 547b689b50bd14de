// Available memory of the machine, and the limits of control groups.
#include "tools/train/process/machine.h"
#include "tools/train/process/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hexad::train {
namespace {

namespace fs = std::filesystem;

/// Files in the format of Linux's /proc and /sys/fs/cgroup, for a machine with 1000 kB of available memory.
class MachineMemory : public testing::Test {
 protected:
  MachineMemory() { file("/proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable:    1000 kB\n"); }
  ~MachineMemory() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  int64_t available() const { return available_memory_bytes(root_); }

 private:
  std::string root_ = testing::TempDir() + "hexad-machine-" + std::to_string(::getpid());
};

TEST_F(MachineMemory, IsTheAvailableMemoryOfTheSystem) {
  EXPECT_EQ(available(), 1'024'000);
  EXPECT_GT(available_memory_bytes(), 0);
}

TEST_F(MachineMemory, IsLessInAControlGroupWithALimit) {
  file("/proc/self/cgroup", "0::/job/step\n");
  file("/sys/fs/cgroup/job/step/memory.max", "max\n");
  file("/sys/fs/cgroup/job/step/memory.current", "5000\n");
  EXPECT_EQ(available(), 1'024'000);
  file("/sys/fs/cgroup/job/memory.max", "100000\n");  // group of the job, which contains the step's group
  file("/sys/fs/cgroup/job/memory.current", "70000\n");
  EXPECT_EQ(available(), 30'000);
  file("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 4000\nactive_file 7\n");
  EXPECT_EQ(available(), 34'000);
}

TEST_F(MachineMemory, IsLessInAControlGroupOfTheFirstVersion) {
  file("/proc/self/cgroup", "5:cpu:/a\n4:memory:/box\n0::/\n");
  file("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9000\n");
  file("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "9500\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(MachineMemory, IsLessInAContainerWithTheRootAsItsGroup) {
  file("/proc/self/cgroup", "0::/\n");
  file("/sys/fs/cgroup/memory.max", "8000\n");
  file("/sys/fs/cgroup/memory.current", "3000\n");
  EXPECT_EQ(available(), 5'000);
}

}  // namespace
}  // namespace hexad::train
