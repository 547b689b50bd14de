#include "framework/data/jsonl.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/base/ordinal.h"
#include "framework/base/utf8.h"
#include "framework/config/words.h"
#include "framework/data/byte_stream.h"
#include "framework/data/chat_record.h"

namespace hexad::data {
using namespace base;
namespace {

using Json = nlohmann::json;

std::string lower_case_extension(std::string_view path) {
  std::string text = std::filesystem::path(path).extension().string();
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Returns the value under `key`; null if there is none. `key` is a key of the object or, if the object lacks it,
// several nested keys joined by dots.
const Json* value_under(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  if (const auto found = object.find(key); found != object.end()) return &*found;
  for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1)) {
    const auto outer = object.find(key.substr(0, dot));
    if (outer == object.end()) continue;
    if (const Json* inner = value_under(*outer, key.substr(dot + 1))) return inner;
  }
  return nullptr;
}

bool gives_document(const Json& object, const RecordRules& rules) {
  if (rules.chat != nullptr) return is_conversation(object);
  const Json* text = value_under(object, rules.text_key);
  return text != nullptr && text->is_string();
}

bool is_list_of_objects(const Json& json) {
  return json.is_array() && !json.empty() &&
         std::ranges::all_of(json, [](const Json& entry) { return entry.is_object(); });
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

std::string_view first_line(std::string_view contents) {
  contents.remove_prefix(std::min(contents.find_first_not_of(" \t\r\n"), contents.size()));
  return contents.substr(0, contents.find('\n'));
}

TextForm form_of_json(std::string_view contents, const RecordRules& rules) {
  const std::string_view line = first_line(contents);
  contents.remove_prefix(line.data() - contents.data());
  const Json first = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (first.is_object())
    return !is_blank(contents.substr(line.size())) || gives_document(first, rules) || rules.text_key_given
               ? TextForm::json_lines
               : TextForm::text;
  const Json all = Json::parse(contents, nullptr, /*allow_exceptions=*/false);
  const auto gives = [&](const Json& entry) { return gives_document(entry, rules); };
  const bool objects = is_list_of_objects(all);
  const bool texts =
      objects ? std::ranges::any_of(all, gives) : gives(all.is_array() && !all.empty() ? all.front() : all);
  return texts || (rules.text_key_given && (objects || all.is_object())) ? TextForm::json : TextForm::text;
}

// Returns the string-valued keys of `object`. Includes the string-valued keys of objects inside `object`, as
// OUTER.INNER.
std::vector<std::string> keys_with_strings(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) keys.push_back(config::shown(key));
    if (!value.is_object()) continue;
    for (const auto& [inner, text] : value.items())
      if (text.is_string()) keys.push_back(config::shown(cat(key, ".", inner)));
  }
  return keys;
}

// Returns a text that lists the string-valued keys, for messages about the key `wanted`.
std::string keys_of(const Json& object, std::string_view wanted) {
  std::vector<std::string> keys = keys_with_strings(object);
  if (keys.empty()) return "no key has a string";
  return "keys with strings: " + config::nearest_first(wanted, std::move(keys));
}

// Parses a text. Returns the problem; empty if there is none.
std::string parse_text(std::string_view text, Json& json) {
  try {
    json = Json::parse(text);
    return {};
  } catch (const Json::exception& e) {
    return e.what();
  }
}
std::string parse_text(std::string_view text, ChatJson& json) { return parse_chat_json(text, json); }

// Passes the documents of one file's objects to `take`, and the problems of the objects to `bad`.
struct Objects {
  TextForm form;
  const std::string& path;
  const RecordRules& rules;
  const TakeRecord& take;
  const TakeProblem& bad;

  template <class... Parts>
  void refuse(int64_t number, const Parts&... parts) const {
    bad(cat(place_of(form, path, number), ": ", parts...));
  }

  std::string example() const {
    return rules.chat != nullptr ? "{\"messages\": [...]}" : cat("{\"", rules.text_key, "\": \"...\"}");
  }

  template <class AnyJson>
  void pass_line(std::string_view line, int64_t number) const {
    AnyJson object;
    // Cuts a problem such as "[json.exception.parse_error.101] parse error at line 1, column 7: ..." after 300 bytes,
    // because its end contains the last token, which may be very long. The part before "column" is removed, too.
    const std::string problem = parse_text(line, object).substr(0, 300);
    const size_t column = problem.find("column ");
    if (!problem.empty())
      return refuse(number,
                    "is not JSON: ", base::valid_utf8(column == problem.npos ? problem : problem.substr(column)),
                    "; expected one object in one line, such as ", example());
    pass(object, number, line);
  }

  template <class AnyJson>
  void pass(const AnyJson& object, int64_t number, std::string_view text) const {
    if (!object.is_object())
      return refuse(number, "is not a JSON object but ", config::shown(text), ", expected an object such as ",
                    example());
    pass_object(object, number);
  }

  template <class AnyJson>
  void pass_all(std::string_view contents) const {
    AnyJson all;
    parse_text(contents, all);  // form_of() has found that `contents` is JSON
    if (!all.is_array()) return pass(all, 1, "");
    int64_t number = 0;
    for (const AnyJson& object : all) pass(object, ++number, object.type_name());
  }

  // Converts a conversation. ChatJson keeps the order of the keys, because chat templates may write the keys.
  void pass_object(const ChatJson& object, int64_t number) const {
    Document document;
    const std::string problem = write_conversation(object, *rules.chat, document);
    if (!problem.empty()) return refuse(number, problem);
    take(std::move(document), number);
  }

  void pass_object(const Json& object, int64_t number) const {
    const std::string& key = rules.text_key;
    const Json* found = value_under(object, key);
    const std::string_view chat = is_conversation(object) ? "; for this conversation, pass --chat-form NAME" : "";
    if (found == nullptr)
      return refuse(number, "has no key \"", key, "\" (--text-key), expected an object such as ", example(), "; ",
                    keys_of(object, key), chat);
    if (!found->is_string())
      return refuse(number, "\"", key, "\" is ", base::json_kind(*found), ", expected a string (--text-key); ",
                    keys_of(object, key));
    take({.text = found->get<std::string>()}, number);
  }
};

}  // namespace

std::string_view name_of(TextForm form) {
  constexpr std::array<std::string_view, 3> names{"text", "JSON lines", "JSON"};
  return names[base::ordinal(form)];
}

TextForm form_of(std::string_view path, std::string_view contents, const RecordRules& rules) {
  constexpr std::array<std::string_view, 4> lines{".jsonl", ".ndjson", ".jsonlines", ".ldjson"};
  const std::string extension = lower_case_extension(without_compression(path));
  if (std::ranges::find(lines, extension) != lines.end()) return TextForm::json_lines;
  return extension == ".json" ? form_of_json(contents, rules) : TextForm::text;
}

bool form_needs_contents(std::string_view path) { return lower_case_extension(without_compression(path)) == ".json"; }

bool is_unnamed_json(TextForm form, std::string_view contents, const RecordRules& rules) {
  const std::string_view line = first_line(contents);
  return form == TextForm::text && line.starts_with('{') && gives_document(Json::parse(line, nullptr, false), rules);
}

bool is_damaged_json(TextForm form, std::string_view path, std::string_view contents, const RecordRules& rules) {
  if (form != TextForm::text || !form_needs_contents(path)) return false;
  const std::string_view line = first_line(contents);
  const std::string key = cat('"', rules.text_key.substr(rules.text_key.rfind('.') + 1), '"');
  return (line.starts_with('[') || line.starts_with('{')) && contents.find(key) != contents.npos &&
         !Json::accept(contents);
}

std::string keys_of_untaken_json(TextForm form, std::string_view path, std::string_view contents,
                                 const RecordRules& rules) {
  if (form != TextForm::text || !form_needs_contents(path) || !first_line(contents).starts_with('[')) return {};
  const Json all = Json::parse(contents, nullptr, /*allow_exceptions=*/false);
  if (!is_list_of_objects(all) || keys_with_strings(all.front()).empty()) return {};
  return keys_of(all.front(), rules.text_key);
}

std::string place_of(TextForm form, const std::string& path, int64_t number) {
  return cat(path, form == TextForm::json_lines ? ":" : ": object ", number);
}

RecordSplitter::RecordSplitter(TextForm form, std::string path, TakeRecordText take)
    : form_(form), path_(std::move(path)), take_(std::move(take)) {}

void RecordSplitter::add(std::string_view block) {
  while (form_ == TextForm::json_lines && !block.empty()) {
    const size_t newline = block.find('\n');
    if (newline == block.npos) break;
    const std::string_view line = block.substr(0, newline);
    require_room(line.size());
    block.remove_prefix(newline + 1);
    pending_ += line;
    take_line(std::exchange(pending_, {}));
  }
  require_room(block.size());
  pending_ += block;
}

void RecordSplitter::require_room(size_t bytes) const {
  if (static_cast<int64_t>(pending_.size() + bytes) > largest_document)
    fail(ExitCode::data, form_ == TextForm::json_lines ? cat(path_, ":", number_ + 1) : path_, ": is longer than ",
         largest_document, " bytes, the maximum; expected JSON lines (.jsonl) of shorter objects");
}

void RecordSplitter::finish() {
  if (form_ == TextForm::json) return take_(std::move(pending_), 1);
  if (!pending_.empty()) take_line(std::move(pending_));
}

void RecordSplitter::take_line(std::string&& line) {
  ++number_;
  if (!is_blank(line)) take_(std::move(line), number_);
}

void read_records(TextForm form, const std::string& path, const RecordRules& rules, std::string_view text,
                  int64_t number, const TakeRecord& take, const TakeProblem& bad) {
  const Objects objects{form, path, rules, take, bad};
  const bool lines = form == TextForm::json_lines;
  if (rules.chat == nullptr) return lines ? objects.pass_line<Json>(text, number) : objects.pass_all<Json>(text);
  return lines ? objects.pass_line<ChatJson>(text, number) : objects.pass_all<ChatJson>(text);
}

}  // namespace hexad::data
