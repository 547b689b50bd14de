#include "framework/config/nearest.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/parsed_number.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

constexpr size_t max_rules = 8;  // maximum number of broken rules for which suggestions are searched
// Number of adjacent values that are tried on each side of a key's value. For each number n in a message, its divisors
// d that are at most `neighbours`, and n / d, are also tried.
constexpr int64_t neighbours = 64;
constexpr std::string_view suggestion_mark = "; nearest";

bool part_of_a_key(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; }

// Returns the maximal runs of characters in `text` that may be part of a key or a number.
std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && part_of_a_key(text[end])) ++end;
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

class Search {
 public:
  Search(const Document& document, const Problems& problems, const std::function<Problems(const Document&)>& check)
      : document_(document), problems_(problems), check_(check), broken_(rules_of(problems)) {}

  /// True if the problem is not a missing key, and is about an integer key or mentions one.
  bool can_try(const Problems::Problem& p) const { return !p.missing && !keys_of(p, text_of(p)).empty(); }
  /// Returns a text like "56, 64" or "parallel.tp 2, 3"; empty if no value that was tried can be suggested.
  std::string values_for(const Problems::Problem& p) {
    const std::string text = text_of(p);
    const std::vector<std::string> keys = keys_of(p, text);
    for (const Touched touched : {Touched::command_line, Touched::file, Touched::never})
      for (const Mends mends : {Mends::all, Mends::this_one, Mends::all_but_breaks})
        for (const std::string& key : keys)
          if (touched_of(key) == touched)
            if (const std::string values = values_of(key, p.rule, text, mends); !values.empty())
              return key == p.rule ? values : key + " " + values;
    return "";
  }

 private:
  using Rules = std::set<std::string>;

  static std::string text_of(const Problems::Problem& p) { return p.line.substr(0, p.line.find(suggestion_mark)); }

  static Rules rules_of(const Problems& problems) {
    Rules rules;
    for (const Problems::Problem& p : problems.list()) rules.insert(p.rule.empty() ? p.line : p.rule);
    return rules;
  }

  /// Effect of a value on the broken rules, from best to worst.
  enum class Mends : uint8_t {
    all,             // mends all broken rules and breaks no other rule
    this_one,        // mends this rule and breaks no other rule; the rules that remain broken do not mention this key
    all_but_breaks,  // mends all broken rules, but breaks rules of other keys, which must be changed too
  };
  bool mends(Mends what, const Rules& left, const std::string& rule, const std::string& key) const {
    if (what == Mends::all) return left.empty();
    const auto of_key = [&](const std::string& r) { return covers(r, key) || blames(r, key); };
    if (std::ranges::any_of(left, of_key)) return false;
    if (what == Mends::this_one) return !left.contains(rule) && std::ranges::includes(broken_, left);
    return std::ranges::none_of(left, [&](const std::string& r) { return broken_.contains(r); }) &&
           std::ranges::all_of(left, [&](const std::string& r) { return problems_.known().contains(r); });
  }

  // True if `rule` is broken now, and the problem is about `key` or mentions `key`.
  bool blames(const std::string& rule, const std::string& key) const {
    return std::ranges::any_of(problems_.list(), [&](const Problems::Problem& p) {
      if (p.rule != rule) return false;
      const std::vector<std::string> keys = keys_of(p, text_of(p));
      return std::ranges::find(keys, key) != keys.end();
    });
  }

  enum class Touched : uint8_t { command_line, file, never };
  Touched touched_of(const std::string& key) const {
    if (problems_.on_command_line(key)) return Touched::command_line;
    return problems_.known().find(key)->second.written ? Touched::file : Touched::never;
  }

  // Returns the integer keys that the problem mentions. The key of the rule comes first if it is an integer key.
  std::vector<std::string> keys_of(const Problems::Problem& p, const std::string& text) const {
    std::vector<std::string> keys;
    const auto add = [&](const std::string& key) {
      const auto known = problems_.known().find(key);
      if (known == problems_.known().end() || std::ranges::find(keys, key) != keys.end()) return;
      if (known->second.whole && base::parsed_number<int64_t>(known->second.value)) keys.push_back(key);
    };
    add(p.rule);
    // A word may be a whole key or the last part of a key: "tp" in the rule of "parallel" is parallel.tp.
    for (const std::string& word : words_in(text)) add(word), add(p.rule + "." + word);
    return keys;
  }

  // Returns positive values to try for `key`, nearest to the current value of `key` first. These are 1, 2, 4, values at
  // most `neighbours` from the current value, and multiples and divisors of the numbers in `text`.
  std::vector<int64_t> candidates(const std::string& key, const std::string& text) const {
    const int64_t now = *base::parsed_number<int64_t>(problems_.known().find(key)->second.value);
    std::set<int64_t> all{1, 2, 4};
    for (int64_t d = 1; d <= neighbours; ++d) all.insert({now - d, now + d});
    for (const std::string& word : words_in(text))
      if (const auto n = base::parsed_number<int64_t>(word); n && *n > 1 && *n < (int64_t{1} << 40)) {
        for (int64_t k = -2; k <= 3; ++k) all.insert((now / *n + k) * *n);
        for (int64_t d = 1; d <= std::min(*n, neighbours); ++d)
          if (*n % d == 0) all.insert({d, *n / d});
      }
    std::erase_if(all, [&](int64_t c) { return c < 1 || c == now; });
    std::vector<int64_t> sorted(all.begin(), all.end());
    std::ranges::stable_sort(sorted, {}, [&](int64_t c) { return std::abs(c - now); });
    return sorted;
  }

  std::string values_of(const std::string& key, const std::string& rule, const std::string& text, Mends what) {
    const int64_t now = *base::parsed_number<int64_t>(problems_.known().find(key)->second.value);
    if (what == Mends::all_but_breaks) return value_that_breaks_least(key, rule, text);
    std::optional<int64_t> below, above;
    for (const int64_t c : candidates(key, text)) {
      std::optional<int64_t>& side = c < now ? below : above;
      if (side) continue;
      if (!mends(what, broken_with(key, c), rule, key)) continue;
      side = c;
      if (below && above) return fmt::format("{}, {}", *below, *above);
    }
    return below || above ? fmt::format("{}", below ? *below : *above) : "";
  }

  // Considers the values that satisfy all rules that are broken now, but break other rules. Returns a text like "2,
  // with another batch.global" with the value that breaks the fewest rules. Of several values that break equally few
  // rules, the text contains the nearest.
  std::string value_that_breaks_least(const std::string& key, const std::string& rule, const std::string& text) {
    std::string best;
    size_t fewest = SIZE_MAX;
    for (const int64_t c : candidates(key, text)) {
      const Rules& left = broken_with(key, c);
      if (left.size() >= fewest || !mends(Mends::all_but_breaks, left, rule, key)) continue;
      best = fmt::format("{}, with another {}", c, fmt::join(left, " and another "));
      fewest = left.size();
    }
    return best;
  }

  const Rules& broken_with(const std::string& key, int64_t value) {
    const std::string override_text = fmt::format("{}={}", key, value);
    const auto [found, fresh] = seen_.try_emplace(override_text);
    if (fresh) {
      Document changed = document_;
      override_key(changed, override_text);
      found->second = rules_of(check_(changed));
    }
    return found->second;
  }

  const Document& document_;
  const Problems& problems_;
  const std::function<Problems(const Document&)>& check_;
  Rules broken_;
  std::map<std::string, Rules> seen_;
};

}  // namespace

void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check) {
  Search search(document, problems, check);
  size_t done = 0;
  std::vector<std::string> lines;
  for (const Problems::Problem& p : problems.list()) {
    std::string line = p.line;
    if (!p.rule.empty() && search.can_try(p) && done++ < max_rules) {
      line.resize(std::min(line.find(suggestion_mark), line.size()));
      if (const std::string values = search.values_for(p); !values.empty()) line += "; nearest: " + values;
    }
    lines.push_back(std::move(line));
  }
  problems.replace_lines(std::move(lines));
}

}  // namespace hexad::config
