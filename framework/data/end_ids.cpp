#include "framework/data/end_ids.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/base/path_problem.h"
#include "framework/config/words.h"
#include "framework/data/file.h"
#include "framework/data/tokenizers/json_field.h"

namespace hexad::data {

using base::cat;
namespace {

using Json = nlohmann::json;

// True if the text of a token is a mark such as <|user|>. Such marks are not special tokens in some tokenizers.
bool is_mark(std::string_view text) { return text.size() > 2 && text.starts_with('<') && text.ends_with('>'); }

// Adds an element of eos_token_id.
void add_end(const Json& value, const std::string& path, const Tokenizer& tokenizer, EndIds& found) {
  const std::string ignored = cat(path, ": ignored the eos_token_id ");
  const int32_t size = tokenizer.vocab_size();
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(size)) {
    found.warnings.push_back(cat(ignored, base::number_or_kind(value),
                                 ", expected an id of the tokenizer (a whole number from 0 to ", size - 1, ")"));
    return;
  }
  const auto id = value.get<int32_t>();
  if (std::ranges::find(found.ids, id) != found.ids.end()) return;
  const std::string_view text = tokenizer.bytes_of(id);
  if (text.empty() || is_mark(text)) {
    found.ids.push_back(id);
  } else {
    found.warnings.push_back(cat(ignored, id, ", which is the text '", config::shown(text),
                                 "', expected a special token or a mark such as <|user|>"));
  }
}

void add_ends_of_file(const std::string& path, const Tokenizer& tokenizer, EndIds& found) try {
  if (base::file_problem(path) == "no such file") return;
  const Json json = Json::parse(read_file(path, largest_config), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    base::fail(base::ExitCode::data, path, ": is ", json.is_discarded() ? "not JSON" : base::json_kind(json),
               ", expected a JSON object");
  const auto field = json.find("eos_token_id");
  if (field == json.end() || field->is_null()) return;
  if (!field->is_array()) return add_end(*field, path, tokenizer, found);
  for (const Json& value : *field) add_end(value, path, tokenizer, found);
} catch (const base::Error& error) {
  found.warnings.push_back(cat("eos_token_id is not known: ", error.what()));
}

}  // namespace

EndIds end_ids(const Tokenizer& tokenizer, const std::string& folder) {
  EndIds found{.ids = {tokenizer.end_of_document()}};
  if (folder.empty() || !tokenizer.contents().source) return found;
  for (const char* name : {"generation_config.json", "config.json"})
    add_ends_of_file(cat(folder, "/", name), tokenizer, found);
  return found;
}

}  // namespace hexad::data
