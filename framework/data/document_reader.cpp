#include "framework/data/document_reader.h"

#include <iterator>
#include <utility>

#include "framework/base/error.h"
#include "framework/data/text_check.h"

namespace hexad::data {
using namespace base;
namespace {

using Splitter = std::variant<DocumentSplitter, RecordSplitter>;

Splitter splitter_of(const InputFile& file, const DocumentSplit& split, const TakePart& take) {
  if (file.form == TextForm::text)
    return DocumentSplitter(file.path, split, [take](std::string_view text) { take({.bytes = std::string(text)}); });
  return RecordSplitter(file.form, file.path, [take](std::string&& text, int64_t number) {
    take({.bytes = std::move(text), .number = number});
  });
}

}  // namespace

PartReader::PartReader(const InputFile& file, const DocumentSplit& split, const TakePart& take)
    : splitter_(splitter_of(file, split, take)) {}

void PartReader::add(std::string_view block) {
  std::visit([&](auto& splitter) { splitter.add(block); }, splitter_);
}

void PartReader::finish() {
  std::visit([](auto& splitter) { splitter.finish(); }, splitter_);
}

void read_part(const InputFile& file, const ReadRules& rules, FilePart&& part, const TakeDocument& take,
               const TakeProblem& bad) {
  if (file.form == TextForm::text) return take({.text = std::move(part.bytes), .place = file.path});
  const DocumentSplit split{.separator = "", .longest_bytes = rules.split.longest_bytes};
  int64_t bytes = 0;  // total size of the documents so far
  const auto take_record = [&](Document&& document, int64_t number) {
    const std::string& text = document.text;
    bytes += std::ssize(text);
    if (bytes > rules.max_part_bytes)
      return bad(cat(place_of(file.form, file.path, number), ": the documents up to this object have more than ",
                     rules.max_part_bytes, " bytes of text, the maximum; expected JSON lines (.jsonl)"));
    if (!rules.binary && text.find('\0') != text.npos)
      return bad(cat(place_of(file.form, file.path, number), ": ",
                     document.parts.empty() ? cat("\"", rules.records.text_key, "\"") : std::string("the conversation"),
                     " is not text: it has a zero byte"));
    document.place = place_of(file.form, file.path, number);
    if (!document.parts.empty()) return take(std::move(document));  // a conversation is never cut
    for_each_document(text, split,
                      [&](std::string_view piece) { take({.text = std::string(piece), .place = document.place}); });
  };
  read_records(file.form, file.path, rules.records, part.bytes, part.number, take_record, bad);
}

Digest read_parts(const InputFile& file, const ReadRules& rules, const TakePart& take,
                  const std::function<void(int64_t)>& progress) {
  const auto stream = open_stream(file.path);
  PartReader reader(file, rules.split, take);
  StreamingDigest digest;
  bool first = true;
  for_each_block(*stream, [&](std::string_view block) {
    if (first && !rules.binary) block = without_byte_order_mark(block);
    first = false;
    digest.add(block.data(), block.size());
    reader.add(block);
    progress(stream->position());
    return true;
  });
  reader.finish();
  return digest.value();
}

}  // namespace hexad::data
