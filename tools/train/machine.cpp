#include "tools/train/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace hexad::train {

namespace {

std::optional<int64_t> first_number(const std::string& file) {
  int64_t number = 0;
  std::ifstream in(file);
  return in >> number ? std::optional(number) : std::nullopt;  // "max" is none
}

/// Of the line "KEY NUMBER ...".
std::optional<int64_t> number_after(std::string_view key, const std::string& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    if (int64_t number = 0; words >> word >> number && word == key) return number;
  }
  return std::nullopt;
}

/// Folders, with a slash at the end, of the control groups that this process is in, in both versions of their file
/// system, and of all around them. Inside a container its own group is the root.
std::vector<std::string> control_groups(const std::string& root) {
  std::vector<std::string> folders;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "NUMBER:CONTROLLERS:PATH"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const std::string mounted = root + (controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    std::string path = line.substr(second + 1);
    while (path.size() > 1) {  // "/a/b", "/a"
      folders.push_back(mounted + path + "/");
      path.resize(path.rfind('/'));
    }
    folders.push_back(mounted + "/");
  }
  return folders;
}

}  // namespace

int64_t usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::string processor_name() {
  const int64_t n = usable_cores();
  const std::string cores = ", " + std::to_string(n) + (n == 1 ? " core" : " cores");
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2) + cores;
  return "unknown processor" + cores;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string program_name() { return *program_invocation_short_name ? program_invocation_short_name : "hexad"; }

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + '\'';
}

std::string command_line() {
  std::ifstream in("/proc/self/cmdline");
  std::string line;
  for (std::string word; std::getline(in, word, '\0');) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

int64_t available_memory_bytes(const std::string& root) {
  int64_t available = number_after("MemAvailable:", root + "/proc/meminfo").value_or(INT64_MAX / 1024) * 1024;
  for (const std::string& folder : control_groups(root))
    for (const auto& [limit, use] :
         {std::pair{"memory.max", "memory.current"}, std::pair{"memory.limit_in_bytes", "memory.usage_in_bytes"}}) {
      const auto most = first_number(folder + limit), now = first_number(folder + use);
      if (!most || !now) continue;
      // Cached files that nobody has used lately are given back when memory is needed.
      const int64_t cached = number_after("inactive_file", folder + "memory.stat").value_or(0);
      available = std::min(available, std::max<int64_t>(0, *most - *now + cached));
    }
  return available;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace hexad::train
