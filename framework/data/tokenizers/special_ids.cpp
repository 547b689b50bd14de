#include "framework/data/tokenizers/special_ids.h"

#include <array>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "framework/base/json_kind.h"
#include "framework/base/path_problem.h"
#include "framework/data/file.h"
#include "framework/data/tokenizers/json_field.h"

namespace hexad::data {

using namespace base;
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 9> usual_ends{"<|endoftext|>", "<|end_of_text|>",     "</s>",
                                                     "<eos>",         "<|end▁of▁sentence|>", "<｜end▁of▁sentence｜>",
                                                     "<|eot_id|>",    "<|im_end|>",          "<EOT>"};

// A configuration file next to the tokenizer file. `json` is null if the file does not exist.
struct Config {
  std::string path;
  Json json;

  Config(const std::string& tokenizer, std::string_view name)
      : path((std::filesystem::path(tokenizer).parent_path() / name).string()) {
    if (file_problem(path) == "no such file") return;
    json = Json::parse(read_file(path, largest_config), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      fail(ExitCode::data, path, ": is ", json.is_discarded() ? "not JSON" : base::json_kind(json),
           ", expected a JSON object");
  }
  // Returns the id of the token that `key` names. The value of `key` is the token's text, or an object that has the
  // text as "content".
  std::optional<int32_t> token(const char* key, const IdByName& id_of) const {
    if (json.is_null()) return std::nullopt;
    const auto field = JsonField(path, json).find(key);
    if (!field) return std::nullopt;
    const std::string& name = field->json().is_object() ? (*field)["content"].text() : field->text();
    const auto id = id_of(name);
    if (!id) field->fail(" is '", name, "', which the tokenizer does not have, expected one of its tokens");
    return id;
  }
};

std::optional<int32_t> generated_end(const Config& config, int64_t vocab_size) {
  if (config.json.is_null()) return std::nullopt;
  const auto field = JsonField(config.path, config.json).find("eos_token_id");
  if (!field) return std::nullopt;
  const JsonField first = field->json().is_array() ? field->at(0) : *field;
  return static_cast<int32_t>(first.integer(0, vocab_size - 1));
}

int32_t end_of(const TokenizerRequest& request, const SpecialHints& hints, const IdByName& id_of, const Config& config,
               int64_t vocab_size) {
  const std::string& wanted = request.choice.end_of_document;
  if (!wanted.empty()) {
    if (const auto id = id_of(wanted)) return *id;
    fail(ExitCode::usage, "--end-of-document: '", wanted, "' is not a token of ", request.path,
         "; expected a token of its vocabulary");
  }
  if (const auto id = config.token("eos_token", id_of)) return *id;
  const Config generation(request.path, "generation_config.json");
  if (const auto id = generated_end(generation, vocab_size)) return *id;
  if (hints.end) return *hints.end;
  for (const std::string_view name : usual_ends)
    if (const auto id = id_of(name)) return *id;
  fail(ExitCode::data, request.path,
       ": no token ends documents (no eos_token in tokenizer_config.json, no eos_token_id in generation_config.json, "
       "no usual name such as <|endoftext|>); name a token with --end-of-document");
}

std::optional<int32_t> beginning_of(const SpecialHints& hints, const IdByName& id_of, const Config& config) {
  if (!config.json.is_null()) {
    const JsonField json(config.path, config.json);
    if (const auto add = json.find("add_bos_token"))
      return json.flag("add_bos_token", false) ? config.token("bos_token", id_of) : std::nullopt;
  }
  return hints.beginning;
}

}  // namespace

void choose_special_ids(TokenizerRequest& request, const SpecialHints& hints, const IdByName& id_of,
                        int64_t vocab_size) {
  TokenizerSource& source = request.source;
  if (source.end_of_document < 0) {
    const Config config(request.path, "tokenizer_config.json");
    source.end_of_document = end_of(request, hints, id_of, config, vocab_size);
    source.beginning_of_document = beginning_of(hints, id_of, config).value_or(-1);
  }
  for (const int32_t id : {source.end_of_document, source.beginning_of_document})
    if (id >= vocab_size)
      fail(ExitCode::data, request.path, ": damaged tokenizer: special id ", id, ", expected below ", vocab_size);
}

}  // namespace hexad::data
