#include "tools/hexad/machine.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>

namespace hexad::app {

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

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace hexad::app
