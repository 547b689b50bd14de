// Work whose crash or hang is a result, not the end of the program.
#pragma once

#include <functional>
#include <string>

namespace hexad::verify {

struct Isolated {
  std::string text;     // what `work` returned
  std::string failure;  // instead: its exception's message, the signal that ended it, or that it took too long
};

/// Runs `work` in a child process and waits for it, at most `seconds`. The caller must be the process's only thread.
/// Throws Error(resource) when no process can be made.
Isolated run_isolated(const std::function<std::string()>& work, double seconds);

}  // namespace hexad::verify
