// Text in files of one JSON object a line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace hexad::data {

bool is_jsonl(std::string_view path);

/// Calls f with the string under `key` of every line; blank lines are passed over. Throws Error(data) with file and
/// line for a line that is no JSON object or has no string there.
void for_each_json_text(std::string_view lines, const std::string& path, const std::string& key,
                        const std::function<void(std::string_view)>& f);

}  // namespace hexad::data
