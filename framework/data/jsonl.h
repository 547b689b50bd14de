// Texts in files of JSON objects.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hexad::data {

/// Layout of the texts in a file. json_lines: one object a line. json: one object, or a list of objects.
enum class TextForm : uint8_t { text, json_lines, json };

/// "text", "JSON lines", "JSON".
std::string_view name_of(TextForm form);

/// By the name (.jsonl, .ndjson and their like, in any case), for .json by `contents`: several lines that each are an
/// object, or objects that have a string under `key`, are JSON; other .json files are text like any other.
TextForm form_of(std::string_view path, std::string_view contents, std::string_view key);

/// True if a file that is read as text begins with a line of JSON that has a string under `key`.
bool is_unnamed_json(TextForm form, std::string_view contents, std::string_view key);

/// The place of object `number`, counted from 1: "a.jsonl:3", "a.json: object 3".
std::string place_of(TextForm form, const std::string& path, int64_t number);

/// Calls f with the string under `key` of every object, and with the object's number; blank lines are passed over.
/// Calls `bad`, with file and line, for what is no JSON object or has no string there, and goes on.
void for_each_json_text(TextForm form, std::string_view contents, const std::string& path, const std::string& key,
                        const std::function<void(std::string_view text, int64_t number)>& f,
                        const std::function<void(const std::string& problem)>& bad);

}  // namespace hexad::data
