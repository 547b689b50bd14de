#include "framework/data/documents.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/byte_stream.h"

namespace hexad::data {
namespace {

bool is_white_space(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

// Returns the position at which the first piece of a text longer than `limit` ends.
size_t cut_position(std::string_view text, size_t limit) {
  const std::string_view head = text.substr(0, limit);
  for (std::string_view boundary : {"\n\n", "\n", " "}) {
    const size_t at = head.rfind(boundary);
    if (at != std::string_view::npos && at + boundary.size() > limit / 2) return at + boundary.size();
  }
  size_t at = limit;
  const auto continues_character = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  while (at > 1 && limit - at < 3 && continues_character(at)) --at;
  return at;
}

}  // namespace

std::string present_limit(const DocumentSplit& split) {
  return split.longest_bytes == 0 ? "no limit now" : base::cat(split.longest_bytes, " now");
}

DocumentSplitter::DocumentSplitter(std::string name, DocumentSplit split, TakeText take)
    : name_(std::move(name)), split_(std::move(split)), take_(std::move(take)) {}

void DocumentSplitter::add(std::string_view block) {
  if (split_.rule == DocumentRule::file) return append(block);
  while (!block.empty()) {
    const size_t newline = block.find('\n');
    const bool ends = newline != block.npos;
    const std::string_view part = block.substr(0, ends ? newline + 1 : block.size());
    add_line(part, ends);
    block.remove_prefix(part.size());
  }
}

void DocumentSplitter::add_line(std::string_view part, bool ends) {
  if (in_line_) {
    append(part);
  } else {
    require_room(line_.size() + part.size());
    line_ += part;
    if (!ends && may_separate(line_)) return;
    if (ends && separates(std::string_view(line_).substr(0, line_.size() - 1))) {
      pass_boundary();
    } else {
      append(line_);
    }
    line_.clear();
  }
  in_line_ = !ends;
}

void DocumentSplitter::finish() {
  if (split_.rule == DocumentRule::file) return end_document();
  if (!line_.empty()) {
    if (separates(line_)) {
      pass_boundary();
    } else {
      append(line_);
    }
    line_.clear();
  }
  in_line_ = false;
  if (open_) end_document();
}

bool DocumentSplitter::separates(std::string_view line) const {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return split_.rule == DocumentRule::blank_lines ? is_white_space(line) : line == split_.separator;
}

bool DocumentSplitter::may_separate(std::string_view beginning) const {
  if (split_.rule == DocumentRule::blank_lines) return is_white_space(beginning);
  return (split_.separator + "\r").starts_with(beginning);
}

// Consecutive blank lines are a single boundary. Two consecutive separator lines enclose an empty document.
void DocumentSplitter::pass_boundary() {
  if (open_ || split_.rule == DocumentRule::separator) end_document();
}

void DocumentSplitter::append(std::string_view text) {
  open_ = open_ || !text.empty();
  const size_t limit = split_.longest_bytes, size = text_.size() + text.size();
  require_room(limit == 0 ? size : std::min(size, limit));
  text_ += text;
  size_t begin = 0;
  while (limit != 0 && text_.size() - begin > limit) {
    const std::string_view rest = std::string_view(text_).substr(begin);
    const size_t n = cut_position(rest, limit);
    pass(rest.substr(0, n));
    begin += n;
  }
  text_.erase(0, begin);
}

void DocumentSplitter::pass(std::string_view piece) {
  if (!has_text_ && is_white_space(piece)) {
    blank_bytes_ += piece.size();
    require_room(blank_bytes_);
    blanks_.emplace_back(piece);
    return;
  }
  has_text_ = true;
  for (const std::string& blank : blanks_) take_(blank);
  blanks_.clear();
  take_(piece);
}

void DocumentSplitter::end_document() {
  if (!has_text_ && is_white_space(text_)) {
    take_({});
  } else if (!text_.empty()) {
    pass(text_);
  }
  text_.clear(), blanks_.clear();
  blank_bytes_ = 0;
  has_text_ = open_ = false;
}

void DocumentSplitter::require_room(size_t bytes) const {
  if (static_cast<int64_t>(bytes) > largest_document)
    base::fail(base::ExitCode::data, name_, ": has a document of more than ", largest_document,
               " bytes, the maximum; divide the document with --split-bytes, or divide the file");
}

void for_each_document(std::string_view text, const DocumentSplit& split, const TakeText& f) {
  DocumentSplitter splitter("the text", split, f);
  splitter.add(text);
  splitter.finish();
}

}  // namespace hexad::data
