// The command line: commands, their options and what these may be. The library that reads it, CLI11, is compiled in
// command_line.cpp alone, because it costs every file that includes it seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/base/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hexad::app {

/// Texts that an option takes: `expected` completes "'x' given, expected ...".
struct Legal {
  std::string expected;
  std::function<bool(const std::string&)> accepts;
  std::vector<std::string_view> words{};  // the list, where it is one
};

/// Destination of an option's value. Its value before is the default, which the help shows.
using Target = std::variant<std::string*, int*, int64_t*, uint64_t*, double*, std::optional<double>*,
                            std::optional<uint64_t>*, std::vector<std::string>*>;

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& legal(Legal values);
  /// Its value names a file or folder: a leading ~ is the home folder, also after --name=, where shells leave it.
  Option& path();
  /// Refused unless `other` is given, too.
  Option& needs(const Option& other);
  /// True if the command line, now parsed, has it.
  bool given() const;

 private:
  CLI::Option* option_;
};

/// A command: a handle on what its CommandLine holds. Targets must live until the command line was parsed.
class Command {
 public:
  Command(CLI::App* app, base::ExitCode* exit_code) : app_(app), exit_code_(exit_code) {}

  Command add_command(const std::string& name, const std::string& help) const;
  /// It does nothing itself: one of its commands must follow.
  void require_command() const;
  bool requires_command() const;
  /// `name` is "--world", or "recipe" for an argument without a name.
  Option add_option(const std::string& name, Target target, const std::string& help) const;
  Option add_flag(const std::string& name, bool& target, const std::string& help) const;
  /// Printed below the help of the options, made only then.
  void footer(std::function<std::string()> text) const;
  /// Sets what the command does when it was chosen.
  void run(std::function<base::ExitCode()> body) const;

  std::string name() const;
  /// "hexad bench gemm".
  std::string full_name() const;
  /// The text that --help prints.
  std::string help() const;
  std::vector<Command> commands() const;
  /// "--help" and the like.
  std::vector<std::string> option_names() const;
  /// An option that may follow, or an argument without a name, which the program calls `argument`. `words`: the values
  /// that it may have, if they are a list.
  struct Taken {
    std::string name{}, argument{}, words{};
    bool has_value = false;
  };
  std::vector<Taken> takes() const;
  /// True if there is an argument without a name that the program calls `argument`.
  bool takes(const std::string& argument) const;
  /// True if key.path=value may follow.
  bool takes_overrides() const;

 private:
  CLI::App* app_;
  base::ExitCode* exit_code_;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& version, const std::string& help);
  ~CommandLine();

  CommandLine(const CommandLine&) = delete;

  Command root() { return {app_.get(), &exit_code_}; }
  /// Runs the chosen command and returns its exit code. Throws Error(usage) for arguments that make no sense.
  base::ExitCode parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  base::ExitCode exit_code_ = base::ExitCode::done;
};

}  // namespace hexad::app
