// Reader of .tiktoken files. Each line contains a token in base64 and its rank.
#include <charconv>

#include "framework/base/counted.h"
#include "framework/config/words.h"
#include "framework/data/tokenizers/base64.h"
#include "framework/data/tokenizers/pipeline_tokenizer.h"
#include "framework/data/tokenizers/rank_vocabulary.h"
#include "framework/data/tokenizers/tiktoken_patterns.h"
#include "framework/data/tokenizers/tokenizer_source.h"

namespace hexad::data {

using namespace base;
namespace {

// Returns the tokens by rank; empty for unused ranks. Adds the number of tokens to `count`.
std::vector<std::string> read_ranks(const TokenizerRequest& request, int64_t& count) {
  std::vector<std::string> tokens;
  std::string_view rest = request.source.bytes;
  for (int64_t line = 1; !rest.empty(); ++line) {
    std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) continue;
    const size_t space = std::min(text.find(' '), text.size());
    const auto token = from_base64(text.substr(0, space));
    int64_t rank = -1;
    const char *begin = text.data() + std::min(space + 1, text.size()), *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, rank);
    if (!token || token->empty() || error != std::errc() || stop != end || rank < 0 || rank >= max_ids)
      fail(ExitCode::data, request.path, ":", line, ": damaged tokenizer: '", config::shown(text),
           "', expected base64, a space and a rank from 0 to ", max_ids - 1);
    if (tokens.size() <= static_cast<size_t>(rank)) tokens.resize(static_cast<size_t>(rank) + 1);
    if (!tokens[rank].empty())
      fail(ExitCode::data, request.path, ":", line, ": damaged tokenizer: a second token of rank ", rank,
           ", expected distinct ranks");
    tokens[rank] = *token;
    ++count;
  }
  return tokens;
}

std::string known_names() {
  std::string names;
  for (const TiktokenPattern& pattern : tiktoken_patterns()) names += cat(names.empty() ? "" : ", ", pattern.name);
  return names;
}

const TiktokenPattern& pattern_of(const TokenizerRequest& request, int64_t count) {
  const std::string& wanted = request.source.pattern.empty() ? request.choice.pattern : request.source.pattern;
  for (const TiktokenPattern& pattern : tiktoken_patterns())
    if (wanted.empty() ? pattern.ranks == count : pattern.name == wanted) return pattern;
  if (!wanted.empty()) fail(ExitCode::usage, request.path, ": pattern '", wanted, "', expected one of ", known_names());
  fail(ExitCode::data, request.path, ": has ", counted(count, "token"),
       ", so its pattern is not known; name the pattern with --tokenizer-pattern: ", known_names());
}

// Adds the special tokens of a pattern. The ids of the special tokens follow the ids of the file if the file has an
// unusual number of tokens.
void add_special(const TiktokenPattern& pattern, int64_t shift, PipelineParts& parts, const std::string& path) {
  for (const SpecialRange& range : pattern.special) {
    for (int32_t i = 0; i < range.count; ++i) {
      std::string name(range.name);
      if (const size_t at = name.find("{}"); at != name.npos) name.replace(at, 2, cat(range.first_number + i));
      const size_t id = range.first_id + i + shift;
      if (parts.names.size() <= id) parts.names.resize(id + 1), parts.bytes.resize(id + 1);
      if (!parts.bytes[id].empty())
        fail(ExitCode::data, path, ": damaged tokenizer: rank ", id, " is the id of the special token ", name,
             ", expected distinct ids");
      parts.names[id] = name;
      parts.added.push_back({.id = static_cast<int32_t>(id),
                             .text = name,
                             .special = true,
                             .normalized = false,
                             .single_word = false,
                             .strip_left = false,
                             .strip_right = false});
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_tiktoken(TokenizerRequest request) {
  int64_t count = 0;
  PipelineParts parts;
  parts.bytes = read_ranks(request, count);
  const TiktokenPattern& pattern = pattern_of(request, count);
  parts.model = make_ranked_model(request.path, parts.bytes, 0);
  parts.names.resize(parts.bytes.size());
  if (pattern.nfc) parts.normalizers.push_back(unicode_form("NFC"));
  parts.pre_tokenizers.steps.push_back(make_regex_split(Regex(pattern.regex, request.path, RegexDialect::rust)));
  parts.pre_tokenizers.byte_level = true;
  request.source.pattern = pattern.name;
  const int64_t shift = count == pattern.ranks ? 0 : std::ssize(parts.bytes) - pattern.special.front().first_id;
  add_special(pattern, shift, parts, request.path);
  parts.hints.end = static_cast<int32_t>(pattern.end_of_document + shift);
  if (pattern.beginning_of_document >= 0)
    parts.hints.beginning = static_cast<int32_t>(pattern.beginning_of_document + shift);
  return make_pipeline(std::move(request), std::move(parts));
}

}  // namespace hexad::data
