// The command line: commands, their options and the legal values of options. Only command_line.cpp includes CLI11, the
// library that parses it. Each file that includes CLI11 takes seconds longer to compile.
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

/// Legal values of an option. `expected` completes "'x' given, expected ...".
struct Legal {
  std::string expected;
  std::function<bool(const std::string&)> accepts;
  std::vector<std::string_view> words{};  // legal words, if the values are a list of words
};

/// Variable that receives the value of an option. Its initial value is the default, which the help shows.
using Target = std::variant<std::string*, int*, int64_t*, uint64_t*, double*, std::optional<double>*,
                            std::optional<uint64_t>*, std::vector<std::string>*>;

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& legal(Legal values);
  /// Marks the value as a path of a file or folder. A leading ~ becomes the home folder, also after --name=, where
  /// shells do not replace it.
  Option& path();
  /// Makes each occurrence of an option with several values take one value. Otherwise it takes all values that follow.
  Option& one_at_a_time();
  /// Rejects this option unless `other` is given too.
  Option& needs(const Option& other);
  /// True if the parsed command line contains the option.
  bool given() const;

 private:
  CLI::Option* option_;
};

/// A command: a handle to data of its CommandLine. Targets must exist until the command line is parsed.
class Command {
 public:
  Command(CLI::App* app, base::ExitCode* exit_code) : app_(app), exit_code_(exit_code) {}

  Command add_command(const std::string& name, const std::string& help) const;
  /// Rejects the command without a subcommand, because it does nothing itself.
  void require_command() const;
  bool requires_command() const;
  /// Adds an option. `name` is "--world" for an option, or "recipe" for an argument without a name.
  Option add_option(const std::string& name, Target target, const std::string& help) const;
  Option add_flag(const std::string& name, bool& target, const std::string& help) const;
  /// Sets a function that makes the text below the help of the options. It is called only if the help is printed.
  void footer(std::function<std::string()> text) const;
  /// Sets the action of the command, which runs if the user chose the command.
  void run(std::function<base::ExitCode()> body) const;

  std::string name() const;
  /// Returns the name, preceded by the names of the parents: "hexad bench gemm".
  std::string full_name() const;
  /// Returns the text that --help prints.
  std::string help() const;
  std::vector<Command> commands() const;
  /// Returns "--help" and all other option names.
  std::vector<std::string> option_names() const;
  /// An option of the command, or an argument without a name, which messages call `argument`. `words` are the legal
  /// values if these are a list of words.
  struct Taken {
    std::string name{}, argument{}, words{};
    bool has_value = false;
  };
  std::vector<Taken> takes() const;
  /// True if the command has an argument without a name that messages call `argument`.
  bool takes(const std::string& argument) const;
  /// True if the command accepts overrides, key.path=value.
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
  /// Runs the chosen command and returns its exit code. Throws Error(usage) for invalid arguments.
  base::ExitCode parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  base::ExitCode exit_code_ = base::ExitCode::done;
};

}  // namespace hexad::app
