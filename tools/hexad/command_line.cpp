#include "tools/hexad/command_line.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "framework/base/home.h"
#include "framework/base/parsed_number.h"
#include "framework/config/words.h"
#include "tools/hexad/usage.h"

namespace hexad::app {
namespace {

constexpr size_t names_width = 30, line_width = 100;

// Breaks text at blanks into lines of at most `width` characters. Longer words remain whole. The text from a word that
// begins with "[" to the end, such as "[default: 1]", counts as one word.
std::string wrapped(const std::string& text, size_t width) {
  std::string lines;
  size_t line = 0, begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text[begin] == '[' ? text.size() : text.find(' ', begin), text.size());
    const size_t length = end - begin;
    if (line > 0) {
      const bool fits = line + 1 + length <= width;
      lines += fits ? ' ' : '\n';
      line = fits ? line + 1 : 0;
    }
    lines.append(text, begin, length);
    line += length;
    begin = end + 1;
  }
  return lines;
}

class Help : public CLI::Formatter {
 public:
  Help() { column_width(names_width); }
  std::string make_option_opts(const CLI::Option* option) const override {
    // Removes the default value after the name, because make_option_desc() appends it to the description.
    std::string text = Formatter::make_option_opts(option);
    const std::string shown = "=" + option->get_default_str();
    if (const size_t at = text.find(shown); shown.size() > 1 && at != text.npos) text.erase(at, shown.size());
    return text;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    const std::string text = option->get_description() + (value.empty() ? "" : " [default: " + value + "]");
    return wrapped(text, line_width - names_width);
  }
};

template <class T>
std::string default_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>)
    return fmt::format("{}", value);
  else
    return "";  // descriptions of lists and optional values mention their defaults
}

template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};

// Returns the problem with `text` as a decimal integer of type T; empty if there is none. CLI11 would read "010" as
// eight, "-1" as the largest unsigned number, and a number that exceeds 64 bits as the largest number.
template <class T>
std::string integer_problem(const std::string& text) {
  const auto value = base::parsed_number<T>(text);
  if (!value)
    return fmt::format("'{}' given, expected a whole number from {} to {}", config::shown(text),
                       std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  return text == fmt::format("{}", *value) ? "" : fmt::format("'{}' given, expected {}", config::shown(text), *value);
}

std::string explain(const CLI::App& app, const CLI::ParseError& error, const Command& command) {
  std::string text = error.what();
  constexpr std::string_view too_often = ": At Most 1 required but received ";  // part of CLI11's message
  if (const size_t at = text.find(too_often); at != text.npos)
    text = fmt::format("{}: given {} times, expected once", text.substr(0, at), text.substr(at + too_often.size()));
  const auto extras = app.remaining(true);
  // If the name of a required option is misspelt, CLI11 reports that the option is missing. The misspelt name, which is
  // among the extra arguments, explains the mistake better.
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) || dynamic_cast<const CLI::RequiredError*>(&error) ||
                     command.requires_command();
  if (extra && !extras.empty()) text = explain_extra(command, extras.front());
  return fmt::format("{}\n`{} --help` lists its arguments and options", text, command.full_name());
}

}  // namespace

Option& Option::required() {
  option_->required()->default_str("");
  return *this;
}

Option& Option::legal(Legal values) {
  const auto check = [values](std::string& text) {
    return values.accepts(text) ? std::string()
                                : fmt::format("'{}' given, expected {}", config::shown(text), values.expected);
  };
  // transform() puts this check before CLI11's check of integers, whose message names only the limits of the type.
  option_->transform(CLI::Validator(check, "").name(fmt::format("{}", fmt::join(values.words, " "))));
  return *this;
}

Option& Option::path() {
  const auto expand = [](std::string& text) {
    // An empty text usually comes from an unset shell variable.
    if (text.empty()) return std::string("'' given, expected the path of a file or folder");
    try {
      text = base::expand_home(text);
      return std::string();
    } catch (const base::Error& error) {
      return fmt::format("'{}' {}", config::shown(text), error.what());
    }
  };
  option_->transform(CLI::Validator(expand, "").name(""));
  return *this;
}

Option& Option::one_at_a_time() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Command Command::add_command(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help), exit_code_);
}

void Command::require_command() const { app_->require_subcommand(1); }

bool Command::requires_command() const { return app_->get_require_subcommand_min() > 0; }

Option Command::add_option(const std::string& name, Target target, const std::string& help) const {
  const auto add = [&](auto* value) {
    using T = typename ValueOf<std::remove_pointer_t<decltype(value)>>::Type;
    CLI::Option* option = app_->add_option(name, *value, help)->default_str(default_text(*value));
    if constexpr (std::is_integral_v<T>)
      option->check(CLI::Validator([](std::string& text) { return integer_problem<T>(text); }, ""));
    return option;
  };
  return Option(std::visit(add, target));
}

Option Command::add_flag(const std::string& name, bool& target, const std::string& help) const {
  return Option(app_->add_flag(name, target, help));
}

void Command::footer(std::function<std::string()> text) const { app_->footer(std::move(text)); }

std::string Command::name() const { return app_->get_name(); }

std::string Command::full_name() const {
  return app_->get_parent() ? Command(app_->get_parent(), exit_code_).full_name() + " " + name() : name();
}

std::string Command::help() const {
  return app_->get_formatter()->make_help(app_, full_name(), CLI::AppFormatMode::Normal);
}

std::vector<Command> Command::commands() const {
  std::vector<Command> all;
  for (CLI::App* command : app_->get_subcommands([](const CLI::App*) { return true; }))
    all.emplace_back(command, exit_code_);
  return all;
}

std::vector<std::string> Command::option_names() const {
  std::vector<std::string> names;
  for (const Taken& option : takes())
    if (!option.name.empty()) names.push_back(option.name);
  return names;
}

std::vector<Command::Taken> Command::takes() const {
  std::vector<Taken> all;
  for (CLI::Option* option : app_->get_options()) {
    Taken taken{.has_value = option->get_items_expected_max() > 0};
    try {
      taken.words = option->get_validator(0)->get_name();
    } catch (const CLI::OptionNotFound&) {  // any text is legal
    }
    if (option->get_positional()) {
      taken.argument = option->get_name();
      all.push_back(taken);
    }
    taken.argument.clear();
    for (const std::string& name : option->get_lnames()) taken.name = "--" + name, all.push_back(taken);
  }
  return all;
}

bool Command::takes(const std::string& argument) const { return app_->get_option_no_throw(argument) != nullptr; }
bool Command::takes_overrides() const { return takes("overrides"); }

void Command::run(std::function<base::ExitCode()> body) const {
  app_->callback([body = std::move(body), code = exit_code_] { *code = body(); });
}

CommandLine::CommandLine(const std::string& name, const std::string& version, const std::string& help)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->formatter(std::make_shared<Help>());
  app_->set_version_flag("--version", version);
  root().require_command();
}

CommandLine::~CommandLine() = default;

base::ExitCode CommandLine::parse(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const Command command = find_command(root(), words);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // the user gave --help or --version
      app_->exit(e);
      return base::ExitCode::done;
    }
    const bool options = std::ranges::any_of(words, [](const std::string& w) { return w.starts_with('-'); });
    if (!command.requires_command() || options) base::fail(base::ExitCode::usage, explain(*app_, e, command));
    fmt::print("{}", app_->help());  // a command is missing, as in `hexad`, or a subcommand, as in `hexad bench`
    return base::ExitCode::usage;
  }
  return exit_code_;
}

}  // namespace hexad::app
