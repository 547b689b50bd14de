// Asking a program to end: SIGINT (Ctrl-C), SIGTERM, and SIGUSR1, which mpirun forwards at once.
#pragma once

namespace hexad::train {

/// Of every command: writing to a closed pipe is an error of that write, no longer deadly (SIGPIPE is ignored). All
/// other signals do what the system does with them, so SIGINT and SIGTERM end a command at once.
void ignore_closed_pipes();

/// Of training: from now on the first SIGINT or SIGTERM only asks the run to save and end, the next one of either ends
/// the process at once. SIGUSR1 asks, too, and never ends it, however often it comes: batch systems announce their
/// SIGTERM with it. A SIGINT that the process was started to ignore (`nohup`, `&` in a script) stays ignored.
void save_and_end_on_signals();
/// Whether a signal has asked for it.
bool preemption_requested();

}  // namespace hexad::train
