// Texts in files of JSON objects.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hexad::data {

/// Layout of the texts in a file. json_lines: one object per line. json: one object, or a list of objects.
enum class TextForm : uint8_t { text, json_lines, json };

/// Returns "text", "JSON lines" or "JSON".
std::string_view name_of(TextForm form);

/// Returns the layout by name (.jsonl, .ndjson and similar endings, in any case). For .json it also examines
/// `contents`: several lines that are each an object, or objects with a string under `key`, are JSON. Other .json files
/// are text.
TextForm form_of(std::string_view path, std::string_view contents, std::string_view key);

/// True if a file that is read as text begins with a line of JSON that has a string under `key`.
bool is_unnamed_json(TextForm form, std::string_view contents, std::string_view key);

/// Returns the place of object `number`, counted from 1: "a.jsonl:3", "a.json: object 3".
std::string place_of(TextForm form, const std::string& path, int64_t number);

/// Calls f with the string under `key` of every object and the object's number. Skips blank lines. If an entry is not a
/// JSON object or has no such string, calls `bad` with file and line and continues.
void for_each_json_text(TextForm form, std::string_view contents, const std::string& path, const std::string& key,
                        const std::function<void(std::string_view text, int64_t number)>& f,
                        const std::function<void(const std::string& problem)>& bad);

}  // namespace hexad::data
