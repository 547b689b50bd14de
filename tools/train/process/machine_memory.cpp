#include "tools/train/process/machine_memory.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "framework/base/error.h"
#include "framework/data/digest.h"
#include "tools/train/process/machine.h"

namespace hexad::train {

namespace {

std::optional<int64_t> first_number(const std::string& file) {
  int64_t number = 0;
  std::ifstream in(file);
  return in >> number ? std::optional(number) : std::nullopt;  // "max" means no limit
}

/// Returns the number in the line "KEY NUMBER ..."; none if the file has no such line.
std::optional<int64_t> number_after(std::string_view key, const std::string& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    if (int64_t number = 0; words >> word >> number && word == key) return number;
  }
  return std::nullopt;
}

struct ControlGroup {
  std::string path;    // such as "/job/step"
  std::string folder;  // folder of the group's files, with a slash at the end
};

/// Returns the control groups of this process and their parent groups, for versions 1 and 2 of control groups. Inside a
/// container, the container's own group is the root.
std::vector<ControlGroup> control_groups(const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // a line is "NUMBER:CONTROLLERS:PATH"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const std::string mounted = root + (controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    std::string path = line.substr(second + 1);
    while (path.size() > 1) {  // for example "/a/b", then "/a"
      groups.push_back({path, mounted + path + "/"});
      path.resize(path.rfind('/'));
    }
    groups.push_back({"/", mounted + "/"});
  }
  return groups;
}

/// Returns an identity of the running kernel. Processes with the same identity share a machine, even if their host
/// names differ.
std::string kernel_identity(const std::string& root) {
  std::string id;
  std::ifstream(root + "/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? host_name() : id;
}

int64_t id_of(const std::string& identity) { return static_cast<int64_t>(data::digest_of(identity).low); }

/// Returns an identity of a folder: its device and inode numbers. In every container, the path of the container's
/// control group is "/". The groups of different containers have different numbers.
std::string folder_identity(const std::string& folder) {
  struct stat status {};
  return stat(folder.c_str(), &status) == 0 ? base::cat(status.st_dev, ":", status.st_ino) : folder;
}

}  // namespace

std::vector<MemoryPool> memory_pools(const std::string& root) {
  std::vector<MemoryPool> pools;
  const std::string kernel = kernel_identity(root);
  if (const auto kilobytes = number_after("MemAvailable:", root + "/proc/meminfo"))
    pools.push_back({id_of(kernel), "the machine's memory", *kilobytes * 1024});
  for (const auto& [path, folder] : control_groups(root))
    for (const auto& [limit, use] :
         {std::pair{"memory.max", "memory.current"}, std::pair{"memory.limit_in_bytes", "memory.usage_in_bytes"}}) {
      const auto most = first_number(folder + limit), now = first_number(folder + use);
      if (!most || !now) continue;
      // Memory of cached files that were not used recently counts as available, because the kernel can free it.
      const int64_t cached = number_after("inactive_file", folder + "memory.stat").value_or(0);
      pools.push_back({id_of(kernel + folder_identity(folder)), "the memory limit of control group " + path,
                       std::max<int64_t>(0, *most - *now + cached)});
    }
  return pools;
}

int64_t available_memory_bytes(const std::string& root) {
  int64_t available = INT64_MAX;
  for (const MemoryPool& pool : memory_pools(root)) available = std::min(available, pool.available);
  return available;
}

}  // namespace hexad::train
