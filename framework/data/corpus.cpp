#include "framework/data/corpus.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "framework/base/counted.h"
#include "framework/data/conversation.h"
#include "framework/data/input_problems.h"
#include "framework/data/text_check.h"

namespace hexad::data {
using namespace base;
namespace {

InputRules input_rules(const PrepareOptions& o) {
  return {o.inputs, o.output, o.include, o.exclude, o.follow_links, o.binary};
}

ReadRules read_rules(const PrepareOptions& o) {
  RecordRules records{.text_key = o.text_key};
  if (!o.chat_form.empty()) records.chat = conversation_form(o.chat_form, o.tokenizer);
  return {.split = o.split, .records = std::move(records), .binary = o.binary};
}

// Collects the problems of the objects of one file.
class FileProblems {
 public:
  FileProblems(InputProblems& all, const std::string& path) : all_(all), path_(path) {}
  ~FileProblems() {
    if (count_ > most) all_.add(ExitCode::data, cat(path_, ": ", count_ - most, " more objects have problems"));
  }
  FileProblems(const FileProblems&) = delete;
  FileProblems& operator=(const FileProblems&) = delete;

  void add(const std::string& problem) {
    if (++count_ <= most) all_.add(ExitCode::data, problem, {std::string(mend_object_remedy)});
  }

 private:
  static constexpr int64_t most = 10;
  InputProblems& all_;
  const std::string& path_;
  int64_t count_ = 0;
};

// Returns the rule for documents with these hashes. `hashes` must not be empty. Throws Error(data) if all hashes are
// equal and a part is requested.
HeldOutRule held_out_rule(const std::vector<uint64_t>& hashes, const PrepareOptions& options) {
  if (options.heldout == 0) return {};
  const auto [least, most] = std::minmax_element(hashes.begin(), hashes.end());
  if (*least == *most) {
    const std::string what = hashes.size() == 1 ? "is one document" : cat("has ", hashes.size(), " equal documents");
    const std::string remedy = options.chat_form.empty()
                                   ? cat("cut ", hashes.size() == 1 ? "it" : "them",
                                         " into shorter documents (--split-bytes, ", present_limit(options.split), ")")
                                   : std::string("give more conversations");
    fail(ExitCode::data, options.inputs.front(), ": ", what, ", so no part can be held out; ", remedy,
         " or give --heldout 0");
  }
  const auto asked = static_cast<uint64_t>(std::ldexp(options.heldout, 64));
  return {std::clamp(asked, *least + 1, *most)};
}

}  // namespace

class ScanState {
 public:
  CorpusScan result = {};
  StreamingDigest inputs;
  std::vector<uint64_t> hashes;
  InputProblems problems;
};

Corpus::Corpus(const PrepareOptions& options, Progress progress)
    : options_(options),
      rules_(read_rules(options)),
      progress_(std::move(progress)),
      inputs_(find_inputs(input_rules(options))),
      total_bytes_(inputs_.bytes()) {}

void Corpus::report(std::string_view stage, int64_t done_bytes) {
  progress_({stage, std::min(done_bytes, total_bytes_), total_bytes_, documents_, total_documents_});
}

CorpusScan Corpus::scan() {
  ScanState state;
  int64_t done = 0;
  report("reading", done);
  for (InputFile& file : inputs_.taken) {
    try {
      scan_file(file, done, state);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      state.problems.add(error.code(), error.what(), {"--exclude PATTERN skips files and folders"});
    }
    done += file.bytes;
    report("reading", done);
  }
  state.problems.throw_if_any();
  CorpusScan result = std::move(state.result);
  result.inputs = state.inputs.value();
  result.documents = std::ssize(state.hashes);
  if (state.hashes.empty()) {
    fail(ExitCode::data, options_.inputs.front(), ": ", counted(std::ssize(inputs_.taken), "file"),
         " without any text (", counted(result.empty_documents, "empty document"), "), expected at least one document");
  }
  result.held_out = held_out_rule(state.hashes, options_);
  total_documents_ = result.documents;
  return result;
}

void Corpus::scan_file(InputFile& file, int64_t done_bytes, ScanState& state) {
  const auto stream = open_stream(file.path);
  FileProblems of_file(state.problems, file.path);
  file.has_text = false;
  const auto take = [&](Document&& document) {
    if (document.text.empty()) {
      ++state.result.empty_documents;
      return;
    }
    file.has_text = true;
    state.hashes.push_back(digest_of(document.text).low);
    ++documents_;
  };
  std::unique_ptr<DocumentReader> reader;
  const auto begin = [&](std::string_view contents) {
    file.form = form_of(file.path, contents, rules_.records);
    if (is_unnamed_json(file.form, contents, rules_.records)) state.result.unnamed_json.push_back(file.path);
    if (rules_.records.chat != nullptr && file.form == TextForm::text)
      fail(ExitCode::data, file.path,
           ": is text, but --chat-form expects conversations, which are JSON objects (.jsonl)");
    reader = std::make_unique<DocumentReader>(file, rules_, take, [&](const std::string& text) { of_file.add(text); });
  };
  const bool whole = form_needs_contents(file.path);
  std::string kept;  // contents so far, if the form of the file depends on all of its contents
  TextCheck check;
  TextProblem problem;
  StreamingDigest digest;
  bool first = true;
  for_each_block(*stream, [&](std::string_view block) {
    if (first && !options_.binary) block = without_byte_order_mark(block);
    first = false;
    if (!options_.binary) problem = check.add(block);
    if (problem) return false;
    digest.add(block.data(), block.size());
    if (whole) {
      kept += block;
      if (static_cast<int64_t>(kept.size()) > largest_document)
        fail(ExitCode::data, file.path, ": has more than ", largest_document,
             " bytes, the maximum for a .json file; expected JSON lines (.jsonl)");
    } else {
      if (!reader) begin(block);
      reader->add(block);
    }
    report("reading", done_bytes + stream->position());
    return true;
  });
  if (!problem && !options_.binary) problem = check.finish();
  if (problem)
    return state.problems.add(ExitCode::data, cat(file.path, ": ", problem.what),
                              {std::string(leave_out_remedy), problem.remedy});
  if (whole) {
    begin(kept);
    reader->add(kept);
  }
  reader->finish();
  const Digest of_contents = digest.value();
  contents_.push_back(of_contents);
  state.inputs.add(&of_contents, sizeof of_contents);
  if (file.form != TextForm::text) {  // the same bytes contain different documents in different forms
    const Digest key = digest_of(options_.text_key);
    state.inputs.add(&key, sizeof key);
  }
}

void Corpus::for_each_document(std::string_view stage, const TakeDocument& f) {
  int64_t done = 0;
  documents_ = 0;
  report(stage, done);
  for (size_t i = 0; i < inputs_.taken.size(); ++i) {
    const InputFile& file = inputs_.taken[i];
    const auto take = [&](Document&& document) {
      if (document.text.empty()) return;
      ++documents_;
      f(std::move(document));
    };
    const Digest contents =
        read_documents(file, rules_, take, [&](int64_t position) { report(stage, done + position); });
    if (contents != contents_[i])
      fail(ExitCode::data, file.path,
           ": has changed since it was first read, expected the same contents; run `hexad prepare` again when the file "
           "no longer changes");
    done += file.bytes;
    report(stage, done);
  }
}

}  // namespace hexad::data
