#include "tools/hexad/usage.h"

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

template <class T>
std::optional<T> parse(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

Command find_command(const Command& command, std::span<const std::string> words) {
  const std::vector<Command> commands = command.commands();
  if (commands.empty() || words.empty() || words.front().starts_with('-')) return command;
  std::vector<std::string> names;
  for (const Command& candidate : commands) {
    if (candidate.name() == words.front()) return find_command(candidate, words.subspan(1));
    names.push_back(candidate.name());
  }
  base::fail(base::ExitCode::usage, "unknown command '", command.full_name(), " ", config::shown(words.front()), "'",
             did_you_mean(words.front(), names), "\ncommands: ", fmt::format("{}", fmt::join(names, ", ")));
}

std::string explain_extra(const Command& command, const std::string& word) {
  if (!word.starts_with('-')) return fmt::format("unexpected argument '{}'", config::shown(word));
  std::string text =
      fmt::format("unknown option '{}'{}", config::shown(word), did_you_mean(word, command.option_names()));
  if (command.takes_overrides()) text += "; keys of the recipe are written key.path=value, such as train.steps=100";
  return text;
}

Legal whole_number(int64_t minimum, int64_t maximum) {
  std::string expected = fmt::format("a whole number of at least {}", minimum);
  if (maximum < std::numeric_limits<int64_t>::max()) expected = fmt::format("{} .. {}", minimum, maximum);
  return {std::move(expected), [=](const std::string& text) {
            const auto value = parse<int64_t>(text);
            return value && minimum <= *value && *value <= maximum;
          }};
}

Legal zero_or_at_least(int64_t minimum) {
  return {fmt::format("0, or at least {}", minimum), [=](const std::string& text) {
            const auto value = parse<int64_t>(text);
            return value && (*value == 0 || *value >= minimum);
          }};
}

Legal number(double minimum, double maximum) {
  return {std::isinf(maximum) ? fmt::format("a number of at least {}", minimum)
                              : fmt::format("a number from {} to {}", minimum, maximum),
          [=](const std::string& text) {
            const auto value = parse<double>(text);
            return value && std::isfinite(*value) && minimum <= *value && *value <= maximum;
          }};
}

Legal number_above(double minimum) {
  return {fmt::format("a number above {}", minimum), [=](const std::string& text) {
            const auto value = parse<double>(text);
            return value && std::isfinite(*value) && *value > minimum;
          }};
}

Legal auto_or_step() {
  return {"auto or a step",
          [](const std::string& text) {
            const auto step = parse<int64_t>(text);
            return text == "auto" || (step && *step >= 0);
          },
          {"auto"}};
}

Legal one_of(std::vector<std::string_view> names) {
  std::string expected = fmt::format("one of {}", config::join(names));
  const auto accepts = [names](const std::string& text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  };
  return {std::move(expected), accepts, std::move(names)};
}

}  // namespace hexad::app
