// Documents in files that contain JSON objects.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "framework/data/conversation.h"
#include "framework/data/text_document.h"

namespace hexad::data {

/// Form of a file. text: plain text. json_lines: one JSON object per line. json: one JSON object, or a list of them.
enum class TextForm : uint8_t { text, json_lines, json };

/// Returns the name of the form: "text", "JSON lines" or "JSON".
std::string_view name_of(TextForm form);

/// Rules that convert a JSON object to a document.
struct RecordRules {
  /// Key of the text. "a.b" is the key b of the object under the key a if the object has no key "a.b".
  std::string text_key = "text";
  std::shared_ptr<const ConversationForm> chat = {};  // form of the conversations; null: objects have plain texts
  /// True if the user has named text_key. A .json file that contains an object or a list of objects is then JSON, even
  /// if no object has the key. The missing key is reported.
  bool text_key_given = false;
};

/// Returns the form of a file. The ending of its name decides (.jsonl, .ndjson and similar endings, in upper or lower
/// case, possibly followed by .gz or .zst). For a name that ends in .json, the first of these rules that applies to
/// `contents` decides:
/// - JSON lines: the first line is a JSON object. In addition, at least one of these holds: more lines follow, `rules`
///   make a document from the object, or rules.text_key_given is true.
/// - JSON: all of `contents` is an object or a list, and `rules` make a document from the object or the first element.
///   In a list of objects, any element is enough.
/// - JSON: rules.text_key_given is true, and all of `contents` is an object or a list of objects.
/// - text: all other contents.
TextForm form_of(std::string_view path, std::string_view contents, const RecordRules& rules);

/// True if form_of() needs the whole contents of the file, not just a few of its first bytes.
bool form_needs_contents(std::string_view path);

/// True if a file of form `text` begins with a line of JSON from which `rules` make a document.
bool is_unnamed_json(TextForm form, std::string_view contents, const RecordRules& rules);

/// True if a file of form `text` is named .json and looks like JSON, but is not JSON. A file looks like JSON if it
/// begins with [ or { and contains the text key in quotes. Of a nested key, the last name suffices.
bool is_damaged_json(TextForm form, std::string_view path, std::string_view contents, const RecordRules& rules);

/// Returns a string that names the string-valued keys of the first object in a list of objects. The file must be of
/// form `text` and be named .json. Returns an empty string for other files, or if there is no such key.
std::string keys_of_untaken_json(TextForm form, std::string_view path, std::string_view contents,
                                 const RecordRules& rules);

/// Returns the location of an object, for example "a.jsonl:3" or "a.json: object 3". `number`, counted from 1, is the
/// number of the line (JSON lines) or of the object (JSON).
std::string place_of(TextForm form, const std::string& path, int64_t number);

using TakeRecord = std::function<void(Document&& document, int64_t number)>;
using TakeProblem = std::function<void(const std::string& problem)>;
using TakeRecordText = std::function<void(std::string&& text, int64_t number)>;

/// Divides a file of JSON objects that arrives in blocks. Keeps one line in memory or, if the form is `json`, the whole
/// file.
class RecordSplitter {
 public:
  /// Calls `take` once, with the whole file, if the form is `json`. Otherwise calls `take` with each line that is not
  /// blank, and with the number of the line, counted from 1.
  RecordSplitter(TextForm form, std::string path, TakeRecordText take);

  /// Throws Error(data) if a line, or a file of form `json`, is longer than largest_document.
  void add(std::string_view block);
  void finish();

 private:
  // Throws Error(data) if pending_ with `bytes` more bytes is longer than largest_document.
  void require_room(size_t bytes) const;
  void take_line(std::string&& line);

  TextForm form_;
  std::string path_;
  TakeRecordText take_;
  std::string pending_;  // beginning of a line, or of the file
  int64_t number_ = 0;
};

/// Calls `take` with each document in `text`, and with the number of its line or object for place_of(). `text` and
/// `number` are the arguments of RecordSplitter's TakeRecordText. Calls `bad` with location and problem for an entry
/// that is not a JSON object, or not a valid document. Then continues. Thread-safe.
void read_records(TextForm form, const std::string& path, const RecordRules& rules, std::string_view text,
                  int64_t number, const TakeRecord& take, const TakeProblem& bad);

}  // namespace hexad::data
