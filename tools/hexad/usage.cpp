#include "tools/hexad/usage.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "framework/config/words.h"

namespace hexad::app {
namespace {

// Each line has the name of an option or command of this program, followed by other programs' names for it.
constexpr std::string_view synonyms[] = {
    "out output o output-file outfile file html save to dest destination",
    "output out o output-dir output-folder outdir dir folder dest destination",
    "input i in inputs input-file source src from data corpus files",
    "json format as-json",
    "csv table",
    "world n np ranks processes nproc num-ranks world-size gpus",
    "threads j jobs cores num-threads",
    "step checkpoint ckpt iteration",
    "steps iterations max-steps num-steps",
    "sequences samples limit max-sequences",
    "max-tokens tokens length n-predict max-length max-new-tokens num-tokens",
    "prompt p text message",
    "prompt-file prompts prompts-file",
    "system system-prompt instructions",
    "together batch batch-size b",
    "choices questions multiple-choice task tasks",
    "items per-item samples log-samples",
    "seed random-seed rng-seed",
    "temperature t temp",
    "heldout holdout held-out validation val eval test test-split",
    "vocab vocab-size vocabulary vocabulary-size",
    "text-key jsonl-key key field column text-column text-field json-key",
    "chat-form chat-template template chat",
    "workers threads j jobs cores num-workers processes",
    "include only match pattern glob",
    "exclude ignore skip except omit",
    "follow-links follow-symlinks dereference L",
    "force f overwrite replace yes y",
    "separator delimiter sep",
    "split-bytes max-bytes chunk-size chunk-bytes",
    "verify check fsck checksum validate",
    "mesh layout topology",
    "svg image picture plot",
    "dtype type data-type",
    "quick fast brief",
    "timeout time-limit",
    "help h usage",
    "version V",
    "train run fit start resume continue finetune pretrain",
    "generate sample complete chat infer inference",
    "eval test score perplexity",
    "validate check lint plan dry-run",
    "prepare tokenize preprocess encode",
    "import convert from-hf load",
    "export convert to-hf",
    "like template reference config",
    "family model-type architecture",
    "inspect show info describe status ls list cat",
    "report compare plot html",
    "env info environment system",
    "bench benchmark",
};

// Returns the names with the same meaning as `word`. If there are none, returns the names that begin with `word` and
// the names that are a prefix of `word`.
std::vector<std::string> related(std::string_view word, const std::vector<std::string>& names) {
  const auto bare = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('-'), text.size()));
  };
  const std::string_view meant = bare(word);
  std::vector<std::string> same, prefixes;
  for (const std::string& name : names) {
    const std::string_view known = bare(name);
    const auto means_it = [&](std::string_view line) {
      return line.starts_with(base::cat(known, " ")) &&
             base::cat(line, " ").find(base::cat(" ", meant, " ")) != line.npos;
    };
    if (std::ranges::any_of(synonyms, means_it)) same.push_back(name);
    if (meant.size() >= 2 && (known.starts_with(meant) || meant.starts_with(known))) prefixes.push_back(name);
  }
  return same.empty() ? prefixes : same;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view likely = config::closest(word, candidates);
  const std::vector<std::string> meant =
      likely.empty() ? related(word, names) : std::vector<std::string>{std::string(likely)};
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", fmt::join(meant, "' or '"));
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
  const std::string name = word.substr(0, word.find('='));  // the text after `=` is the value
  std::string text =
      fmt::format("unknown option '{}'{}", config::shown(name), did_you_mean(name, command.option_names()));
  if (command.takes_overrides()) text += "; keys of the recipe are written key.path=value, such as train.steps=100";
  return text;
}

Legal whole_number(int64_t minimum, int64_t maximum) {
  std::string expected = fmt::format("a whole number of at least {}", minimum);
  if (maximum < std::numeric_limits<int64_t>::max())
    expected = fmt::format("a whole number from {} to {}", minimum, maximum);
  return {std::move(expected), [=](const std::string& text) {
            const auto value = base::parsed_number<int64_t>(text);
            return value && minimum <= *value && *value <= maximum;
          }};
}

Legal zero_or_at_least(int64_t minimum) {
  return {fmt::format("0, or at least {}", minimum), [=](const std::string& text) {
            const auto value = base::parsed_number<int64_t>(text);
            return value && (*value == 0 || *value >= minimum);
          }};
}

Legal number(double minimum, double maximum) {
  return {std::isinf(maximum) ? fmt::format("a number of at least {}", minimum)
                              : fmt::format("a number from {} to {}", minimum, maximum),
          [=](const std::string& text) {
            const auto value = base::parsed_number<double>(text);
            return value && std::isfinite(*value) && minimum <= *value && *value <= maximum;
          }};
}

Legal number_above(double minimum) {
  return {fmt::format("a number above {}", minimum), [=](const std::string& text) {
            const auto value = base::parsed_number<double>(text);
            return value && std::isfinite(*value) && *value > minimum;
          }};
}

Legal auto_or_step() {
  return {"auto or a step",
          [](const std::string& text) {
            const auto step = base::parsed_number<int64_t>(text);
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
