// Machine and command line of this process.
#pragma once

#include <cstdint>
#include <string>

namespace hexad::train {

/// Cores that this process may run on (its affinity).
int64_t usable_cores();
/// "Intel(R) Xeon(R) ..., 2 cores".
std::string processor_name();
std::string host_name();
/// Name of the program: "hexad", or as a user's own was built.
std::string program_name();
/// `word` as a shell takes it: in quotes where it needs them.
std::string shell_word(const std::string& word);
/// Command that started this process, as a shell takes it; without a launcher before it.
std::string command_line();
/// Largest resident memory of this process so far, in bytes.
int64_t peak_resident_bytes();

}  // namespace hexad::train
