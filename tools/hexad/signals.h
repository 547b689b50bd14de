// Asking a run to save and end: SIGUSR1 (which mpirun forwards at once) and SIGTERM.
#pragma once

namespace hexad::app {

/// Installs handlers that only set a flag: the trainer looks at it between steps. A second signal changes nothing, so a
/// save in progress finishes. Writing to a closed pipe is no longer deadly (SIGPIPE is ignored).
void install_signal_handlers();
bool preemption_requested();

}  // namespace hexad::app
