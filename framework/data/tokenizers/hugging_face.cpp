// Reader of tokenizer.json, the format of Hugging Face's tokenizers library.
#include <nlohmann/json.hpp>

#include "framework/data/tokenizers/decoders.h"
#include "framework/data/tokenizers/hugging_face_model.h"
#include "framework/data/tokenizers/pipeline_tokenizer.h"
#include "framework/data/tokenizers/tokenizer_source.h"

namespace hexad::data {

using namespace base;
namespace {

using Json = nlohmann::json;

// Reads the tokens that a post-processor puts before and after a text.
class TemplateReader {
 public:
  void read(const JsonField& json, int depth) {
    const std::string type = json["type"].text();
    json.require_depth(depth);
    if (type == "Sequence") {
      const JsonField list = json["processors"];
      for (size_t i = 0; i < list.size(); ++i) read(list.at(i), depth + 1);
    } else if (type == "TemplateProcessing") {
      read_template(json);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      set(hints_.beginning, json["cls"].at(1));
      set(hints_.end, json["sep"].at(1));
    } else if (type != "ByteLevel") {
      json.fail_unsupported(" is of type '", type,
                            "', expected TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
    }
  }
  SpecialHints hints() const { return hints_; }

 private:
  static void set(std::optional<int32_t>& hint, const JsonField& id) {
    if (hint) id.fail_unsupported(" is a second token on one side of the text, expected at most one on each side");
    hint = static_cast<int32_t>(id.integer(0, max_ids - 1));
  }
  void read_template(const JsonField& json) {
    const JsonField list = json["single"], tokens = json["special_tokens"];
    bool after = false;
    for (size_t i = 0; i < list.size(); ++i) {
      const JsonField part = list.at(i);
      const auto token = part.find("SpecialToken");
      if (!token) {
        after = true;
        continue;
      }
      const std::string name = (*token)["id"].text();
      const JsonField ids = tokens[name.c_str()]["ids"];
      if (ids.size() != 1) ids.fail_unsupported(" has ", ids.size(), " ids, expected 1");
      set(after ? hints_.end : hints_.beginning, ids.at(0));
    }
  }

  SpecialHints hints_;
};

// Reads the texts of the special tokens. read_added() checks them.
SpecialTexts special_texts(const JsonField& json) {
  SpecialTexts texts;
  const auto list = json.find("added_tokens");
  for (size_t i = 0; list && i < list->size(); ++i)
    if (list->at(i).flag("special", false)) texts.insert(list->at(i)["content"].text());
  return texts;
}

std::vector<AddedToken> read_added(const JsonField& json, Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  const auto list = json.find("added_tokens");
  for (size_t i = 0; list && i < list->size(); ++i) {
    const JsonField t = list->at(i);
    const bool special = t.flag("special", false);
    AddedToken token{.id = static_cast<int32_t>(t["id"].integer(0, max_ids - 1)),
                     .text = t["content"].text(),
                     .special = special,
                     .normalized = t.flag("normalized", !special),
                     .single_word = t.flag("single_word", false),
                     .strip_left = t.flag("lstrip", false),
                     .strip_right = t.flag("rstrip", false)};
    if (token.text.empty()) t["content"].fail(" is empty, expected the text of the token");
    vocabulary.add(token.text, token.id, t);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

std::unique_ptr<Tokenizer> make_hugging_face(TokenizerRequest request) {
  const Json file = Json::parse(request.source.bytes, nullptr, /*allow_exceptions=*/false);
  const JsonField json(request.path, file);
  if (!file.is_object())
    json.fail(" is ", file.is_discarded() ? "not JSON" : base::json_kind(file), ", expected a JSON object");
  PipelineParts parts;
  if (const auto field = json.find("normalizer")) parts.normalizers = read_normalizers(*field);
  if (const auto field = json.find("pre_tokenizer")) parts.pre_tokenizers = read_pre_tokenizers(*field);
  DecoderRules decoder{.byte_level = parts.pre_tokenizers.byte_level};
  if (const auto field = json.find("decoder")) read_decoder(*field, decoder);
  if (const auto field = json.find("post_processor")) {
    TemplateReader reader;
    reader.read(*field, 0);
    parts.hints = reader.hints();
  }
  Vocabulary vocabulary;
  parts.model = read_model(json["model"], parts.pre_tokenizers.byte_level, special_texts(json), vocabulary);
  parts.added = read_added(json, vocabulary);
  parts.names = vocabulary.names();
  for (const std::string& name : parts.names) parts.bytes.push_back(decoder.bytes_of(name));
  for (const AddedToken& token : parts.added) parts.bytes[token.id] = token.special ? "" : token.text;
  parts.decoded_prefix = decoder.prefix;
  return make_pipeline(std::move(request), std::move(parts));
}

}  // namespace hexad::data
