// Reader of Mistral's tekken.json: ranked tokens, a pattern, and special tokens, which have the lowest ids.
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/data/tokenizers/base64.h"
#include "framework/data/tokenizers/json_field.h"
#include "framework/data/tokenizers/pipeline_tokenizer.h"
#include "framework/data/tokenizers/rank_vocabulary.h"
#include "framework/data/tokenizers/tokenizer_source.h"

namespace hexad::data {

using namespace base;
namespace {

using Json = nlohmann::json;

// Special tokens of files without a list of special tokens.
constexpr std::array<std::string_view, 20> usual_special{"<unk>",
                                                         "<s>",
                                                         "</s>",
                                                         "[INST]",
                                                         "[/INST]",
                                                         "[AVAILABLE_TOOLS]",
                                                         "[/AVAILABLE_TOOLS]",
                                                         "[TOOL_RESULTS]",
                                                         "[/TOOL_RESULTS]",
                                                         "[TOOL_CALLS]",
                                                         "[IMG]",
                                                         "<pad>",
                                                         "[IMG_BREAK]",
                                                         "[IMG_END]",
                                                         "[PREFIX]",
                                                         "[MIDDLE]",
                                                         "[SUFFIX]",
                                                         "[SYSTEM_PROMPT]",
                                                         "[/SYSTEM_PROMPT]",
                                                         "[TOOL_CONTENT]"};

std::vector<std::string> read_special(const JsonField& json, int64_t count) {
  std::vector<std::string> names(count);
  if (const auto list = json.find("special_tokens")) {
    for (size_t i = 0; i < list->size(); ++i) {
      const JsonField token = list->at(i);
      const int64_t rank = token["rank"].integer(0, count - 1);
      std::string& name = names[rank];
      if (!name.empty()) token.fail(" has rank ", rank, ", which an earlier token has; expected distinct ranks");
      const JsonField text = token["token_str"];
      if (text.text().empty()) text.fail(" is empty, expected the text of the token");
      name = text.text();
    }
  } else {
    for (size_t i = 0; i < std::min(names.size(), usual_special.size()); ++i) names[i] = usual_special[i];
  }
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) names[i] = cat("<SPECIAL_", i, ">");
  return names;
}

std::vector<std::string> read_tokens(const JsonField& json, int64_t count) {
  const JsonField list = json["vocab"];
  if (static_cast<int64_t>(list.size()) < count)
    list.fail(" has ", counted(std::ssize(list), "token"), ", expected at least ", count,
              " (config.default_vocab_size minus config.default_num_special_tokens)");
  std::vector<std::string> tokens(count);
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonField entry = list.at(i);
    const int64_t rank = entry["rank"].integer(0, max_ids - 1);
    if (rank >= count) continue;  // the model uses only the tokens with the lowest ranks
    const JsonField text = entry["token_bytes"];
    auto token = from_base64(text.text());
    if (!token || token->empty()) text.fail(" is empty or cannot be decoded, expected base64 of at least one byte");
    if (!tokens[rank].empty()) entry.fail(" has rank ", rank, ", which an earlier token has; expected distinct ranks");
    tokens[rank] = std::move(*token);
  }
  return tokens;
}

}  // namespace

std::unique_ptr<Tokenizer> make_tekken(TokenizerRequest request) {
  const Json file = Json::parse(request.source.bytes, nullptr, /*allow_exceptions=*/false);
  const JsonField json(request.path, file), config = json["config"];
  const int64_t size = config["default_vocab_size"].integer(257, max_ids);
  const int64_t special = config["default_num_special_tokens"].integer(1, size - 256);
  const std::vector<std::string> tokens = read_tokens(json, size - special);
  PipelineParts parts;
  parts.names = read_special(json, special);
  parts.bytes.resize(special);
  for (int32_t id = 0; id < special; ++id)
    parts.added.push_back({.id = id,
                           .text = parts.names[id],
                           .special = true,
                           .normalized = false,
                           .single_word = false,
                           .strip_left = false,
                           .strip_right = false});
  parts.names.resize(size);
  parts.model = make_ranked_model(request.path, tokens, static_cast<int32_t>(special));
  parts.bytes.insert(parts.bytes.end(), tokens.begin(), tokens.end());
  const JsonField pattern = config["pattern"];
  parts.pre_tokenizers.steps.push_back(make_regex_split(Regex(pattern.text(), pattern.place(), RegexDialect::rust)));
  parts.pre_tokenizers.byte_level = true;
  for (int32_t id = 0; id < special; ++id) {
    if (parts.names[id] == "<s>") parts.hints.beginning = id;
    if (parts.names[id] == "</s>") parts.hints.end = id;
  }
  return make_pipeline(std::move(request), std::move(parts));
}

}  // namespace hexad::data
