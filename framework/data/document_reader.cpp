#include "framework/data/document_reader.h"

#include <string>
#include <utility>

#include "framework/base/error.h"
#include "framework/data/text_check.h"

namespace hexad::data {
using namespace base;
namespace {

using Reader = std::variant<DocumentSplitter, RecordReader>;

RecordReader record_reader(const InputFile& file, const ReadRules& rules, TakeDocument take, const TakeProblem& bad) {
  const DocumentSplit split{.separator = "", .longest_bytes = rules.split.longest_bytes};
  const auto take_record = [=, form = file.form, path = file.path, key = rules.records.text_key, binary = rules.binary](
                               Document&& document, int64_t number) {
    const std::string& text = document.text;
    if (!binary && text.find('\0') != text.npos)
      return bad(cat(place_of(form, path, number), ": ",
                     document.parts.empty() ? cat("\"", key, "\"") : std::string("the conversation"),
                     " is not text: it has a zero byte"));
    document.place = place_of(form, path, number);
    if (!document.parts.empty()) return take(std::move(document));  // a conversation is never cut
    for_each_document(text, split,
                      [&](std::string_view piece) { take({.text = std::string(piece), .place = document.place}); });
  };
  return {file.form, file.path, rules.records, take_record, bad};
}

Reader reader_of(const InputFile& file, const ReadRules& rules, TakeDocument take, const TakeProblem& bad) {
  if (file.form != TextForm::text) return record_reader(file, rules, std::move(take), bad);
  const auto take_text = [take = std::move(take), path = file.path](std::string_view text) {
    take({.text = std::string(text), .place = path});
  };
  return DocumentSplitter(file.path, rules.split, take_text);
}

}  // namespace

DocumentReader::DocumentReader(const InputFile& file, const ReadRules& rules, TakeDocument take, TakeProblem bad)
    : reader_(reader_of(file, rules, std::move(take), bad)) {}

void DocumentReader::add(std::string_view block) {
  std::visit([&](auto& reader) { reader.add(block); }, reader_);
}

void DocumentReader::finish() {
  std::visit([](auto& reader) { reader.finish(); }, reader_);
}

Digest read_documents(const InputFile& file, const ReadRules& rules, const TakeDocument& take,
                      const std::function<void(int64_t)>& progress) {
  const auto stream = open_stream(file.path);
  DocumentReader reader(file, rules, take, [](const std::string& problem) { fail(ExitCode::data, problem); });
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
