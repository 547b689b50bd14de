#include "framework/data/jsonl.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/utf8.h"
#include "framework/config/words.h"

namespace hexad::data {
using namespace base;
namespace {

using Json = nlohmann::json;

std::string keys_of(const Json& object, std::string_view wanted) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items())
    if (value.is_string()) keys.push_back(config::shown(key));
  if (keys.empty()) return "no key has a string";
  return "keys with strings: " + config::nearest_first(wanted, std::move(keys));
}

Json parse(std::string_view line, const std::string& where) {
  try {
    Json json = Json::parse(line);
    if (json.is_object()) return json;
  } catch (const Json::exception& e) {
    const std::string_view what = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 7: ..."
    const size_t column = what.find("column ");
    fail(ExitCode::data, where, "is no JSON: ", valid_utf8(column == what.npos ? what : what.substr(column)));
  }
  fail(ExitCode::data, where, "is no JSON object but ", config::shown(line),
       ", expected a line such as {\"text\": \"...\"}");
}

}  // namespace

bool is_jsonl(std::string_view path) { return path.ends_with(".jsonl"); }

void for_each_json_text(std::string_view lines, const std::string& path, const std::string& key,
                        const std::function<void(std::string_view)>& f) {
  int64_t number = 0;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string where = cat(path, ":", number, ": ");
    const Json json = parse(line, where);
    const auto found = json.find(key);
    if (found == json.end())
      fail(ExitCode::data, where, "has no key \"", key, "\" (--jsonl-key); ", keys_of(json, key));
    if (!found->is_string())
      fail(ExitCode::data, where, "\"", key, "\" is ", found->type_name(), ", expected a string (--jsonl-key); ",
           keys_of(json, key));
    f(found->get_ref<const std::string&>());
  }
}

}  // namespace hexad::data
