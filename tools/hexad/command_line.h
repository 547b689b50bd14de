// The command line: commands, their options, and legal values of options. Only command_line.cpp includes the parser
// library CLI11, because each file that includes CLI11 takes seconds longer to compile.
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

/// Legal values of an option.
struct Legal {
  std::string expected;  // completes the message "'x' given, expected ..."
  std::function<bool(const std::string&)> accepts;
  std::vector<std::string_view> words{};  // the legal values that are words; empty if there are none
};

/// Pointer to the variable that receives the value of an option. The variable's initial value is the default. The help
/// shows the default, except for lists, optional values and required options.
using Target = std::variant<std::string*, int*, int64_t*, uint64_t*, double*, std::optional<double>*,
                            std::optional<uint64_t>*, std::vector<std::string>*>;

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& legal(Legal values);
  /// Marks the value as the path of a file or folder. The path must not be empty. Replaces a leading ~ with the home
  /// folder, because shells do not replace ~ in --name=~/path.
  Option& path();
  /// Makes each occurrence of a list option take one value. Without this call, an occurrence takes all values that
  /// follow it.
  Option& one_at_a_time();
  /// Rejects this option if `other` is not given.
  Option& needs(const Option& other);
  /// True if the parsed command line contains the option.
  bool given() const;

 private:
  CLI::Option* option_;
};

/// A command of the command line. This class is a handle; the CommandLine owns the data. Targets of options must exist
/// until the command line is parsed.
class Command {
 public:
  Command(CLI::App* app, base::ExitCode* exit_code) : app_(app), exit_code_(exit_code) {}

  Command add_command(const std::string& name, const std::string& help) const;
  /// Makes a subcommand mandatory, because the command does nothing itself.
  void require_command() const;
  bool requires_command() const;
  /// Adds an option, with a `name` such as "--world", or a positional argument, with a `name` such as "recipe".
  Option add_option(const std::string& name, Target target, const std::string& help) const;
  Option add_flag(const std::string& name, bool& target, const std::string& help) const;
  /// Sets a function that returns the text at the end of the help. The function is called only when the help is
  /// printed.
  void footer(std::function<std::string()> text) const;
  /// Sets the function that runs if the user chooses the command.
  void run(std::function<base::ExitCode()> body) const;

  std::string name() const;
  /// Returns the name with the names of all parent commands: "hexad bench gemm".
  std::string full_name() const;
  /// Returns the text that --help prints.
  std::string help() const;
  std::vector<Command> commands() const;
  /// Returns "--help" and all other option names.
  std::vector<std::string> option_names() const;
  /// An option of the command (`name` is set), or a positional argument (`argument` is set). `words` has the legal
  /// values that are words, separated by blanks.
  struct Taken {
    std::string name{}, argument{}, words{};
    bool has_value = false;
  };
  std::vector<Taken> takes() const;
  /// True if the command has the positional argument `argument`.
  bool takes(const std::string& argument) const;
  /// True if the command accepts overrides of the form key.path=value.
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
  /// Runs the chosen command and returns its exit code. For --help and --version, prints the text and returns
  /// ExitCode::done. Without options and without a command, prints the help and returns ExitCode::usage. Throws
  /// Error(usage) for invalid arguments.
  base::ExitCode parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  base::ExitCode exit_code_ = base::ExitCode::done;
};

}  // namespace hexad::app
