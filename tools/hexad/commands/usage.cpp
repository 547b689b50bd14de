#include "tools/hexad/commands/usage.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::app {
namespace {

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view likely = config::closest(word, candidates);
  return likely.empty() ? "" : fmt::format("; did you mean '{}'?", likely);
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() ? full_name(*command.get_parent()) + " " + command.get_name() : command.get_name();
}

std::string explain_extra(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) return fmt::format("unexpected argument '{}'", config::shown(word));
  std::string text =
      fmt::format("unknown option '{}'{}", config::shown(word), did_you_mean(word, option_names(command)));
  if (takes_overrides(command)) text += "; keys of the recipe are written key.path=value, such as train.steps=100";
  return text;
}

template <class T>
std::optional<T> parse(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

CLI::Validator legal(std::string expected, std::function<bool(const std::string&)> accepts) {
  return {[expected, accepts = std::move(accepts)](std::string& text) {
            return accepts(text) ? std::string()
                                 : fmt::format("'{}' given, expected {}", config::shown(text), expected);
          },
          ""};
}

}  // namespace

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_overrides(const CLI::App& command) { return command.get_option_no_throw("overrides") != nullptr; }

const CLI::App& find_command(const CLI::App& app, std::span<const std::string> words) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || words.empty() || words.front().starts_with('-')) return app;
  std::vector<std::string> names;
  for (const CLI::App* command : commands) {
    if (command->get_name() == words.front()) return find_command(*command, words.subspan(1));
    names.push_back(command->get_name());
  }
  base::fail(base::ExitCode::usage, "unknown command '", full_name(app), " ", config::shown(words.front()), "'",
             did_you_mean(words.front(), names), "\ncommands: ", fmt::format("{}", fmt::join(names, ", ")));
}

std::string explain(const CLI::App& command, const CLI::ParseError& error) {
  std::string text = error.what();
  const auto extras = command.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) && !extras.empty()) text = explain_extra(command, extras.front());
  return fmt::format("{}\n`{} --help` shows what it takes", text, full_name(command));
}

CLI::Validator whole_number(int64_t minimum, int64_t maximum) {
  std::string expected = fmt::format("a whole number of at least {}", minimum);
  if (maximum < std::numeric_limits<int64_t>::max()) expected = fmt::format("{} .. {}", minimum, maximum);
  return legal(std::move(expected), [=](const std::string& text) {
    const auto value = parse<int64_t>(text);
    return value && minimum <= *value && *value <= maximum;
  });
}

CLI::Validator number(double minimum, double maximum) {
  return legal(std::isinf(maximum) ? fmt::format("a number of at least {}", minimum)
                                   : fmt::format("a number from {} to {}", minimum, maximum),
               [=](const std::string& text) {
                 const auto value = parse<double>(text);
                 return value && std::isfinite(*value) && minimum <= *value && *value <= maximum;
               });
}

CLI::Validator number_above(double minimum) {
  return legal(fmt::format("a number above {}", minimum), [=](const std::string& text) {
    const auto value = parse<double>(text);
    return value && std::isfinite(*value) && *value > minimum;
  });
}

CLI::Validator auto_or_step() {
  return legal("auto or a step", [](const std::string& text) {
    const auto step = parse<int64_t>(text);
    return text == "auto" || (step && *step >= 0);
  });
}

CLI::Validator one_of(std::vector<std::string_view> names) {
  std::string expected = fmt::format("one of {}", config::join(names));
  return legal(std::move(expected), [names = std::move(names)](const std::string& text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  });
}

}  // namespace hexad::app
