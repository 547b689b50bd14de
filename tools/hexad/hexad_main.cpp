#include "tools/hexad/hexad_main.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

#include "framework/base/failure.h"
#include "tools/hexad/commands/command.h"
#include "tools/train/process/crash_report.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/say.h"
#include "tools/train/process/signals.h"
#include "tools/train/process/version.h"

namespace hexad {
namespace {

int run(int argc, char** argv, const train::Extensions& extensions) {
  app::CommandLine line(train::program_name(), std::string(train::version),
                        "Trains Mixture-of-Experts transformers with mpirun and a YAML recipe.");
  const app::Program program{line.root(), extensions};
  for (const auto add :
       {app::add_train,    app::add_generate, app::add_eval,      app::add_validate,      app::add_prepare,
        app::add_tokenize, app::add_import,   app::add_export,    app::add_inspect,       app::add_env,
        app::add_bench,    app::add_profile,  app::add_reference, app::add_plan,          app::add_report,
        app::add_scale,    app::add_simulate, app::add_verify,    app::add_check_cluster, app::add_completion,
        app::add_help})
    add(program);
  return static_cast<int>(line.parse(argc, argv));
}

/// Opens /dev/null for standard descriptors that are closed. Otherwise, the next opened file would get such a
/// descriptor, and the program would print into this file.
void open_standard_descriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // open() takes the lowest free number, which is `fd`
}

/// Flushes the standard output and returns `code`. Ignores a reader that closed the pipe early (`| head`). Throws
/// std::system_error for other failures.
int flush(int code) {
  if (std::fflush(stdout) == 0 || errno == EPIPE) return code;
  throw std::system_error(errno, std::generic_category(), "standard output");
}

}  // namespace

int hexad_main(int argc, char** argv, const train::Extensions& extensions) {
  open_standard_descriptors();
  train::ignore_signals_of_writes();
  train::install_crash_handlers();
  try {
    return flush(run(argc, argv, extensions));
  } catch (const std::exception& e) {
    if (base::is_closed_pipe(e)) return static_cast<int>(base::ExitCode::done);
    const base::Failure failure = base::failure_of(e);
    train::say(failure.text);
    return static_cast<int>(failure.code);
  }
}

}  // namespace hexad
