#include "framework/data/jsonl.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/base/utf8.h"
#include "framework/config/words.h"

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

bool has_text(const Json& object, std::string_view key) {
  if (!object.is_object()) return false;
  const auto found = object.find(key);
  return found != object.end() && found->is_string();
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

std::string_view first_line(std::string_view contents) {
  contents.remove_prefix(std::min(contents.find_first_not_of(" \t\r\n"), contents.size()));
  return contents.substr(0, contents.find('\n'));
}

TextForm form_of_json(std::string_view contents, std::string_view key) {
  const std::string_view line = first_line(contents);
  contents.remove_prefix(line.data() - contents.data());
  const Json first = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (first.is_object())
    return !is_blank(contents.substr(line.size())) || has_text(first, key) ? TextForm::json_lines : TextForm::text;
  const Json all = Json::parse(contents, nullptr, /*allow_exceptions=*/false);
  const bool texts = all.is_array() && !all.empty() ? has_text(all.front(), key) : has_text(all, key);
  return texts ? TextForm::json : TextForm::text;
}

std::string keys_of(const Json& object, std::string_view wanted) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items())
    if (value.is_string()) keys.push_back(config::shown(key));
  if (keys.empty()) return "no key has a string";
  return "keys with strings: " + config::nearest_first(wanted, std::move(keys));
}

// The objects in one file, and their problems.
struct Objects {
  TextForm form;
  const std::string& path;
  const std::string& key;
  const std::function<void(std::string_view, int64_t)>& f;
  const std::function<void(const std::string&)>& bad;

  template <class... Parts>
  void refuse(int64_t number, const Parts&... parts) const {
    bad(cat(place_of(form, path, number), ": ", parts...));
  }

  std::string example() const { return cat("{\"", key, "\": \"...\"}"); }

  void pass_line(std::string_view line, int64_t number) const {
    try {
      pass(Json::parse(line), number, line);
    } catch (const Json::exception& e) {
      const std::string_view what =
          e.what();  // a text like "[json.exception.parse_error.101] parse error at line 1, column 7: ..."
      const size_t column = what.find("column ");
      refuse(number, "is not JSON: ", base::valid_utf8(column == what.npos ? what : what.substr(column)),
             "; expected one object in one line, such as ", example());
    }
  }

  void pass(const Json& object, int64_t number, std::string_view text) const {
    if (!object.is_object())
      return refuse(number, "is not a JSON object but ", config::shown(text), ", expected an object such as ",
                    example());
    const auto found = object.find(key);
    if (found == object.end())
      return refuse(number, "has no key \"", key, "\" (--jsonl-key), expected an object such as ", example(), "; ",
                    keys_of(object, key));
    if (!found->is_string())
      return refuse(number, "\"", key, "\" is ", found->type_name(), ", expected a string (--jsonl-key); ",
                    keys_of(object, key));
    f(found->get_ref<const std::string&>(), number);
  }
};

}  // namespace

std::string_view name_of(TextForm form) {
  constexpr std::array<std::string_view, 3> names{"text", "JSON lines", "JSON"};
  return names[base::ordinal(form)];
}

TextForm form_of(std::string_view path, std::string_view contents, std::string_view key) {
  constexpr std::array<std::string_view, 4> lines{".jsonl", ".ndjson", ".jsonlines", ".ldjson"};
  const std::string extension = lower_case_extension(path);
  if (std::ranges::find(lines, extension) != lines.end()) return TextForm::json_lines;
  return extension == ".json" ? form_of_json(contents, key) : TextForm::text;
}

bool is_unnamed_json(TextForm form, std::string_view contents, std::string_view key) {
  const std::string_view line = first_line(contents);
  return form == TextForm::text && line.starts_with('{') && has_text(Json::parse(line, nullptr, false), key);
}

std::string place_of(TextForm form, const std::string& path, int64_t number) {
  return cat(path, form == TextForm::json_lines ? ":" : ": object ", number);
}

void for_each_json_text(TextForm form, std::string_view contents, const std::string& path, const std::string& key,
                        const std::function<void(std::string_view, int64_t)>& f,
                        const std::function<void(const std::string&)>& bad) {
  const Objects objects{form, path, key, f, bad};
  int64_t number = 0;
  if (form == TextForm::json) {
    const Json all = Json::parse(contents, nullptr, /*allow_exceptions=*/false);
    if (!all.is_array()) return objects.pass(all, 1, "");
    for (const Json& object : all) objects.pass(object, ++number, object.type_name());
    return;
  }
  while (!contents.empty()) {
    const std::string_view line = contents.substr(0, contents.find('\n'));
    contents.remove_prefix(std::min(contents.size(), line.size() + 1));
    ++number;
    if (!is_blank(line)) objects.pass_line(line, number);
  }
}

}  // namespace hexad::data
