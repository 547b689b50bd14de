// Handling of signals that ask the program to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (a closed terminal), and SIGUSR1,
// which mpirun forwards to all ranks.
#pragma once

namespace hexad::train {

/// Ignores SIGPIPE and SIGXFSZ. A write to a closed pipe, or beyond the limit of file sizes (`ulimit -f`), then fails
/// without ending the process. Does not change the actions of other signals, so SIGINT and SIGTERM end a command
/// immediately. hexad_main() calls this before every command.
void ignore_signals_of_writes();

/// Installs the handlers for training:
/// - The first SIGINT or SIGTERM only asks the run to save and end.
/// - A second SIGINT or SIGTERM ends the process immediately if it arrives at least one second after the first. A
///   second signal that arrives earlier is ignored: Slurm sends SIGTERM twice within milliseconds when a job's time is
///   over, and users press Ctrl-C twice.
/// - SIGTERM from mpirun does not count as a second signal, because mpirun itself ends the remaining ranks.
/// - SIGUSR1 also asks the run to save and end, but never ends the process. Batch systems send it before SIGTERM.
/// - SIGINT or SIGTERM remains ignored if it was ignored when the process started (`&` in a script).
void save_and_end_on_signals();
/// Installs the handlers for commands that write a temporary folder. The first SIGINT, SIGTERM or SIGHUP only asks the
/// command to remove the folder and end; see ending_signal(). A second signal ends the process as in training.
void clean_up_and_end_on_signals();
/// Returns the first signal that asked the command to end; 0 if none did.
int ending_signal();
/// Ends the process as `signal` does without a handler.
void end_by_signal(int signal);
/// True if a signal has asked the run to save and end.
bool preemption_requested();
/// True if SIGINT or SIGTERM has asked the run to end. The sender of the signal may soon kill the process, even during
/// a save.
bool end_requested();

}  // namespace hexad::train
