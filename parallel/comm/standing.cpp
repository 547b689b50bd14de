#include "parallel/comm/standing.h"

#include <algorithm>
#include <sstream>

#include "framework/base/counted.h"
#include "framework/base/error.h"

namespace hexad::comm {
namespace {

using base::cat;

constexpr size_t max_missing = 64, max_text = 1200;

}  // namespace

std::string to_note(const Standing& s) {
  const size_t ranks = std::min(s.missing.size(), max_missing);
  std::string note = cat(static_cast<int>(s.kind), " ", s.seconds, " ", ranks);
  for (size_t i = 0; i < ranks; ++i) note += cat(" ", s.missing[i]);
  return cat(note, "\n", s.text.substr(0, max_text));
}

Standing parse_standing(std::string_view note) {
  std::istringstream in{std::string(note)};
  Standing s;
  int kind = -1;
  size_t ranks = 0;
  in >> kind >> s.seconds >> ranks;
  if (in && ranks <= max_missing) s.missing.resize(ranks);
  for (int& rank : s.missing) in >> rank;
  if (!in || kind < 0 || kind > 2 || ranks > max_missing || in.get() != '\n')
    base::fail(base::ExitCode::communication, "a rank's report of its activity cannot be read: '", note,
               "'; expected the same version of hexad on all ranks");
  s.kind = static_cast<Standing::Kind>(kind);
  std::getline(in, s.text);
  return s;
}

std::string list_of(const std::vector<int>& ranks) {
  constexpr size_t shown = 8;
  std::string text = base::plural(std::ssize(ranks), "rank");
  for (size_t i = 0; i < std::min(ranks.size(), shown); ++i) text += cat(i ? ", " : " ", ranks[i]);
  return ranks.size() > shown ? cat(text, ", ... (", ranks.size(), " in all)") : text;
}

}  // namespace hexad::comm
