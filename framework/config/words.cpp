#include "framework/config/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "framework/base/escaped.h"
#include "framework/base/utf8.h"

namespace hexad::config {
namespace {

constexpr size_t longest_compared = 64;
constexpr size_t longest_short = 2;  // maximum bytes of a short word; see closest()
constexpr size_t longest_shown = 60;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the table of distances between prefixes. A swap needs row i-2.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view closest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > longest_compared) return {};
  std::string_view best;
  size_t fewest = SIZE_MAX;
  for (const std::string_view candidate : candidates) {
    // One edit can turn a short word into an unrelated word, so two short words must begin with the same letter.
    if (std::max(word.size(), candidate.size()) <= longest_short && !word.empty() && !candidate.empty() &&
        lower(word.front()) != lower(candidate.front()))
      continue;
    const size_t edits = edit_distance(word, candidate);
    // Allows one edit, or a third of the letters of the shorter word if this is more. With more edits, the candidate is
    // probably another word.
    const size_t allowed = std::max<size_t>(1, std::min(word.size(), candidate.size()) / 3);
    if (edits <= allowed && edits < fewest) {
      best = candidate;
      fewest = edits;
    }
  }
  return best;
}

std::string join(std::span<const std::string_view> words) { return fmt::format("{}", fmt::join(words, ", ")); }

std::string nearest_first(std::string_view word, std::vector<std::string> words) {
  std::ranges::stable_sort(words, {}, [&](const std::string& w) { return edit_distance(word, w); });
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string shown(std::string_view given) {
  const std::string text = base::valid_utf8(given);
  const bool cut = text.size() > longest_shown;
  size_t end = std::min(text.size(), longest_shown);
  // The text must not be cut inside a UTF-8 sequence.
  while (cut && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return base::escaped(std::string_view(text).substr(0, end)) + (cut ? "..." : "");
}

bool covers(std::string_view above, std::string_view path) {
  return !above.empty() && path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '.');
}

std::string child_path(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

}  // namespace hexad::config
