// Texts in files that contain JSON objects.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hexad::data {

/// Form of a file. text: plain text. json_lines: one JSON object per line. json: one JSON object, or a list of them.
enum class TextForm : uint8_t { text, json_lines, json };

/// Returns the name of the form: "text", "JSON lines" or "JSON".
std::string_view name_of(TextForm form);

/// Returns the form of a file, which depends on the ending of its name (.jsonl, .ndjson and similar endings, in upper
/// or lower case). A file named .json is JSON if `contents` consists of several lines that are each an object, or of
/// objects with a string under `key`. Otherwise it is text.
TextForm form_of(std::string_view path, std::string_view contents, std::string_view key);

/// True if a file of form `text` begins with a line of JSON that has a string under `key`.
bool is_unnamed_json(TextForm form, std::string_view contents, std::string_view key);

/// Returns the location of object `number` (from 1), for example "a.jsonl:3" or "a.json: object 3".
std::string place_of(TextForm form, const std::string& path, int64_t number);

/// Calls f with the string under `key` of each object and with the number of the object. Blank lines are skipped. Calls
/// `bad` with the file and the line for each entry that is not a JSON object or has no such string, and continues.
void for_each_json_text(TextForm form, std::string_view contents, const std::string& path, const std::string& key,
                        const std::function<void(std::string_view text, int64_t number)>& f,
                        const std::function<void(const std::string& problem)>& bad);

}  // namespace hexad::data
