// Facts about the machine and the command line of this process.
#pragma once

#include <cstdint>
#include <string>

namespace hexad::train {

/// Returns the number of cores on which this process may run (its affinity).
int64_t usable_cores();
/// Returns the processor's name and usable_cores(): "Intel(R) Xeon(R) ..., 2 cores".
std::string processor_name();
std::string host_name();
/// Returns the name of the program: "hexad", or the name of a user's own program.
std::string program_name();
/// Returns `word`, quoted for a shell if necessary.
std::string shell_word(const std::string& word);
/// Returns the command that started this process, quoted for a shell. Excludes the launcher (mpirun, srun).
std::string command_line();
/// Returns the peak resident memory of this process so far, in bytes.
int64_t peak_resident_bytes();

}  // namespace hexad::train
