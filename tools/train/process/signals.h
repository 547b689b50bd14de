// Asking a program to end: SIGINT (Ctrl-C), SIGTERM, and SIGUSR1, which mpirun forwards at once.
#pragma once

namespace hexad::train {

/// For every command: writing to a closed pipe is an error of that write, no longer deadly (SIGPIPE is ignored). All
/// other signals do what the system does with them, so SIGINT and SIGTERM end a command at once.
void ignore_closed_pipes();

/// For training: from now on the first SIGINT or SIGTERM only asks the run to save and end. Another one of either ends
/// the process at once if it comes a second or more after the first. Earlier ones belong to the same request: Slurm
/// sends SIGTERM twice within milliseconds when a job's time is over, and people press Ctrl-C twice. Nor does mpirun's
/// SIGTERM count as another one: mpirun itself ends ranks that stay. SIGUSR1 asks, too, and never ends the process:
/// batch systems announce their SIGTERM with it. A SIGINT that the process was started to ignore (`nohup`, `&` in a
/// script) stays ignored.
void save_and_end_on_signals();
/// True if a signal has asked for it.
bool preemption_requested();
/// True if that was SIGINT or SIGTERM: their sender may end the process soon, saved or not.
bool end_requested();

}  // namespace hexad::train
