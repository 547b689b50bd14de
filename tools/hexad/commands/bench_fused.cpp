#include "tools/hexad/commands/bench_fused.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "framework/base/enum_names.h"
#include "parallel/comm/launcher.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"
#include "tools/scale/child_process.h"

namespace hexad::app {

using namespace base;
using train::FusedShape;
namespace fs = std::filesystem;

namespace {

struct FusedArguments {
  std::string device = "cpu", dtype = "bf16";
  int64_t place = 0, rows = 4096, hidden = 1024, width = 512, experts = 8, threads = 1;
};

/// Prints the score of a direction. Throws if the candidate failed or was wrong.
void report(std::string_view direction, const kernels::DuelScore& score) {
  if (!score.failure.empty()) fail(ExitCode::resource, "bench fused: ", direction, ": ", score.failure);
  const double milliseconds = 1e3 / static_cast<double>(score.contests);
  fmt::print("{}: one call {:.3f} ms, two calls {:.3f} ms; largest error {:.2g} times the tolerance\n", direction,
             score.candidate_seconds * milliseconds, score.plain_seconds * milliseconds, score.error);
  if (!score.agrees())
    fail(ExitCode::numeric, "bench fused: ", direction, ": the results of one call differ from those of two calls by ",
         score.error, " times the tolerance; expected at most 1");
}

ExitCode bench_fused(const FusedArguments& o) {
  const train::FusedScores scores = train::try_fused({.device = *enum_named<device::DeviceKind>(o.device),
                                                      .place = static_cast<int>(o.place),
                                                      .dtype = dtype_from_name(o.dtype),
                                                      .rows = o.rows,
                                                      .hidden = o.hidden,
                                                      .width = o.width,
                                                      .experts = o.experts,
                                                      .threads = o.threads});
  report("forward", scores.forward);
  report("backward", scores.backward);
  return ExitCode::done;
}

/// Returns the command of the child process. `env` removes the launcher's variables, because the command refuses to run
/// as one of several ranks.
std::vector<std::string> words_of_child(const FusedShape& s) {
  std::vector<std::string> words{"env"};
  for (const auto& [size, rank] : comm::rank_variables()) words.insert(words.end(), {"-u", size, "-u", rank});
  words.insert(words.end(), {fs::read_symlink("/proc/self/exe").string(), "bench", "fused"});
  const auto option = [&](std::string_view name, const auto& value) { words.push_back(cat("--", name, "=", value)); };
  option("device", device::name_of(s.device));
  option("place", s.place);
  option("dtype", name_of(s.dtype));
  option("rows", s.rows);
  option("hidden", s.hidden);
  option("width", s.width);
  option("experts", s.experts);
  option("threads", s.threads);
  return words;
}

/// File in TMPDIR for the output of a child process. It is removed when the object is destroyed.
class OutputFile {
 public:
  OutputFile() : path_((fs::temp_directory_path() / "hexad-fused-XXXXXX").string()) {
    const int file = ::mkstemp(path_.data());
    if (file < 0)
      fail(ExitCode::resource, "cannot make the file ", path_, ": ", std::strerror(errno),
           "; set TMPDIR to a writable folder");
    ::close(file);
  }
  ~OutputFile() { ::unlink(path_.c_str()); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Returns the last line that is not empty.
  std::string last_line() const {
    std::ifstream in(path_);
    std::string last;
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) last = line;
    return last;
  }

 private:
  std::string path_;
};

}  // namespace

void add_bench_fused(const Command& bench) {
  const Command command = bench.add_command(
      "fused", "Compare one fused kernel call with two calls, for a product and the activation of SwiGLU experts");
  auto options = std::make_shared<FusedArguments>();
  command.add_option("--device", &options->device, "device of the kernels").legal(one_of({"cpu", "cuda", "emulated"}));
  command.add_option("--place", &options->place, "number of the GPU on this machine, counted from 0")
      .legal(whole_number(0, 1024));
  command.add_option("--dtype", &options->dtype, "f32, bf16 or f64").legal(one_of({"f32", "bf16", "f64"}));
  command.add_option("--rows", &options->rows, "number of rows of all experts together").legal(whole_number(1));
  command.add_option("--hidden", &options->hidden, "elements of a row").legal(whole_number(1));
  command.add_option("--width", &options->width, "hidden width of an expert").legal(whole_number(1));
  command.add_option("--experts", &options->experts, "number of experts").legal(whole_number(1));
  command.add_option("--threads", &options->threads, "number of kernel threads on a CPU").legal(whole_number(1, 4096));
  command.run(on_one_rank(command, [options] { return bench_fused(*options); }));
}

std::string prove_fused_in_child(const FusedShape& s, double limit_seconds) {
  try {
    const OutputFile output;
    scale::Children children;
    children.start(words_of_child(s), output.path(), limit_seconds);
    const scale::ChildEnd end = children.wait().second;
    if (end.timed_out) return fmt::format("the process did not end within {} s", limit_seconds);
    return end.exit_code == 0 ? "" : fmt::format("exit code {}: {}", end.exit_code, output.last_line());
  } catch (const std::exception& e) {  // any error: training continues without the candidate
    return e.what();
  }
}

}  // namespace hexad::app
