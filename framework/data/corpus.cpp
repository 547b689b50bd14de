#include "framework/data/corpus.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "framework/base/counted.h"
#include "framework/data/conversation.h"
#include "framework/data/input_problems.h"
#include "framework/data/ordered_jobs.h"
#include "framework/data/text_check.h"

namespace hexad::data {
using namespace base;
namespace {

InputRules input_rules(const PrepareOptions& o) {
  return {o.inputs, o.output, o.include, o.exclude, o.follow_links, o.binary};
}

ReadRules read_rules(const PrepareOptions& o) {
  RecordRules records{.text_key = o.text_key, .text_key_given = o.text_key_given};
  if (!o.chat_form.empty()) records.chat = conversation_form(o.chat_form, o.tokenizer);
  return {.split = o.split, .records = std::move(records), .binary = o.binary};
}

// Returns the size in bytes of the batches that are passed to the threads. A batch is a single conversation if a chat
// template writes the conversations, because the template may write megabytes.
int64_t batch_bytes(const PrepareOptions& o) {
  return o.chat_form == model_form_name ? 1 : std::min(int64_t{256} << 10, o.shard_bytes);
}

// Returns the rule that selects the held-out documents. `hashes`, which must not be empty, contains the hash of each
// document. `files` is the number of files, for the message. Throws Error(data) if all hashes are equal and a held-out
// part is requested.
HeldOutRule held_out_rule(const std::vector<uint64_t>& hashes, int64_t files, const PrepareOptions& options) {
  if (options.heldout == 0) return {};
  const auto [least, most] = std::minmax_element(hashes.begin(), hashes.end());
  if (*least == *most) {
    const std::string what = hashes.size() == 1 ? "one document" : cat("only ", hashes.size(), " equal documents");
    const std::string remedy = options.chat_form.empty() ? cat("divide ", hashes.size() == 1 ? "it" : "them",
                                                               " into shorter documents with --split-bytes (",
                                                               present_limit(options.split), ")")
                                                         : std::string("give more conversations");
    fail(ExitCode::data, "--input ", some_of(options.inputs), ": ", counted(files, "file"),
         files == 1 ? " contains " : " contain ", what, ", so no part can be held out; ", remedy,
         ", or set --heldout 0");
  }
  const auto asked = static_cast<uint64_t>(std::ldexp(options.heldout, 64));
  return {std::clamp(asked, *least + 1, *most)};
}

// A part of a file, with the index of the file.
struct NumberedPart {
  size_t file;  // index in InputFiles::taken
  FilePart part;
};

// The first problems of objects in a file or part, and the number of all problems.
struct ObjectProblems {
  static constexpr size_t most = 10;
  std::vector<std::string> first = {};
  size_t count = 0;

  void add(std::string problem) {
    if (++count <= most) first.push_back(std::move(problem));
  }
  void add(ObjectProblems&& later) {
    for (std::string& problem : later.first)
      if (first.size() < most) first.push_back(std::move(problem));
    count += later.count;
  }
};

struct ScannedPart {
  size_t file;
  int64_t empty_documents = 0;
  std::vector<uint64_t> hashes = {};  // one for each document that is not empty
  ObjectProblems problems = {};
};

struct FileProblems {
  ObjectProblems objects = {};
  std::string whole = {};  // problem of the file itself
  std::vector<std::string> remedies = {};

  void add_to(InputProblems& all, const std::string& path) const {
    for (const std::string& problem : objects.first)
      all.add(ExitCode::data, problem, {std::string(mend_object_remedy)});
    if (objects.count > objects.first.size())
      all.add(ExitCode::data, cat(path, ": ", objects.count - objects.first.size(),
                                  objects.count == objects.first.size() + 1 ? " more object has a problem"
                                                                            : " more objects have problems"));
    if (!whole.empty()) all.add(ExitCode::data, whole, remedies);
  }
};

// Reads all files once. Parts of files are converted to documents on the threads of Workers.
class Scanner {
 public:
  using Report = std::function<void(int64_t done_bytes, int64_t documents)>;

  Scanner(InputFiles& inputs, const ReadRules& rules, Workers& workers, int64_t batch, Report report)
      : inputs_(inputs),
        rules_(rules),
        report_(std::move(report)),
        problems_(inputs.taken.size()),
        parts_(
            workers, batch, [this](NumberedPart&& part) { return scanned(std::move(part)); },
            [this](ScannedPart&& part) { take(std::move(part)); }) {}

  CorpusScan run() {
    report();
    for (size_t file = 0; file < inputs_.taken.size(); ++file) {
      try {
        read(file);
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
        problems_[file].whole = error.what();
        problems_[file].remedies = {"--exclude PATTERN skips files and folders"};
      }
      done_bytes_ += inputs_.taken[file].bytes;
      report();
    }
    parts_.finish();
    report();
    InputProblems all;
    for (size_t file = 0; file < problems_.size(); ++file) problems_[file].add_to(all, inputs_.taken[file].path);
    all.throw_if_any();
    result_.inputs = digest_.value();
    result_.documents = std::ssize(hashes_);
    return std::move(result_);
  }
  const std::vector<uint64_t>& hashes() const { return hashes_; }
  std::vector<Digest> take_contents() { return std::move(contents_); }

 private:
  void report(int64_t position = 0) { report_(done_bytes_ + position, std::ssize(hashes_)); }

  void begin(size_t index, std::string_view contents, std::optional<PartReader>& reader) {
    InputFile& file = inputs_.taken[index];
    file.form = form_of(file.path, contents, rules_.records);
    if (is_unnamed_json(file.form, contents, rules_.records)) result_.unnamed_json.push_back(file.path);
    if (is_damaged_json(file.form, file.path, contents, rules_.records)) result_.damaged_json.push_back(file.path);
    if (std::string keys = keys_of_untaken_json(file.form, file.path, contents, rules_.records); !keys.empty()) {
      if (result_.untaken_json.empty()) result_.untaken_keys = std::move(keys);
      result_.untaken_json.push_back(file.path);
    }
    if (rules_.records.chat != nullptr && file.form == TextForm::text) {
      if (form_needs_contents(file.path))
        fail(ExitCode::data, file.path,
             ": has no conversation for --chat-form; expected JSON lines, or a list of objects such as ",
             "{\"messages\": [...]}; is the file truncated or damaged?");
      fail(ExitCode::data, file.path,
           ": is text, but --chat-form expects conversations, which are JSON objects (.jsonl)");
    }
    reader.emplace(file, rules_.split, [this, index](FilePart&& part) {
      const int64_t bytes = std::ssize(part.bytes);
      parts_.add({index, std::move(part)}, bytes);
    });
  }

  void read(size_t index) {
    InputFile& file = inputs_.taken[index];
    const auto stream = open_stream(file.path);
    file.has_text = false;
    std::optional<PartReader> reader;
    const bool whole = form_needs_contents(file.path);
    std::string kept;  // contents so far, if the form of the file depends on all of its contents
    TextCheck check;
    TextProblem problem;
    StreamingDigest digest;
    bool first = true;
    for_each_block(*stream, [&](std::string_view block) {
      if (first && !rules_.binary) block = without_byte_order_mark(block);
      first = false;
      if (!rules_.binary) problem = check.add(block);
      if (problem) return false;
      digest.add(block.data(), block.size());
      if (whole) {
        kept += block;
        if (static_cast<int64_t>(kept.size()) > largest_document)
          fail(ExitCode::data, file.path, ": has more than ", largest_document,
               " bytes, the maximum for a .json file; expected JSON lines (.jsonl)");
      } else {
        if (!reader) begin(index, block, reader);
        reader->add(block);
      }
      report(stream->position());
      return true;
    });
    if (!problem && !rules_.binary) problem = check.finish();
    if (problem) {
      problems_[index].whole = cat(file.path, ": ", problem.what);
      problems_[index].remedies = {std::string(leave_out_remedy), problem.remedy};
      return;
    }
    if (whole) {
      begin(index, kept, reader);
      reader->add(kept);
    }
    reader->finish();
    add_contents(file, digest.value());
  }

  void add_contents(const InputFile& file, Digest contents) {
    contents_.push_back(contents);
    digest_.add(&contents, sizeof contents);
    if (file.form == TextForm::text) return;
    // Includes the text key in the digest, because the same bytes contain different documents under different keys.
    const Digest key = digest_of(rules_.records.text_key);
    digest_.add(&key, sizeof key);
  }

  // Runs on a worker thread.
  ScannedPart scanned(NumberedPart&& numbered) const {
    ScannedPart part{.file = numbered.file};
    read_part(
        inputs_.taken[numbered.file], rules_, std::move(numbered.part),
        [&](Document&& document) {
          if (document.text.empty()) {
            ++part.empty_documents;
          } else {
            part.hashes.push_back(digest_of(document.text).low);
          }
        },
        [&](const std::string& problem) { part.problems.add(problem); });
    return part;
  }

  void take(ScannedPart&& part) {
    result_.empty_documents += part.empty_documents;
    if (!part.hashes.empty()) inputs_.taken[part.file].has_text = true;
    hashes_.insert(hashes_.end(), part.hashes.begin(), part.hashes.end());
    problems_[part.file].objects.add(std::move(part.problems));
  }

  InputFiles& inputs_;
  const ReadRules& rules_;
  Report report_;
  CorpusScan result_ = {};
  StreamingDigest digest_;
  int64_t done_bytes_ = 0;
  std::vector<uint64_t> hashes_;        // one for each document that is not empty
  std::vector<Digest> contents_;        // digests of the files' contents
  std::vector<FileProblems> problems_;  // one entry for each file
  OrderedJobs<NumberedPart, ScannedPart>
      parts_;  // declared last: its destructor waits for threads that use inputs_ and rules_
};

}  // namespace

Corpus::Corpus(const PrepareOptions& options, Workers& workers, Progress progress)
    : options_(options),
      workers_(workers),
      rules_(read_rules(options)),
      progress_(std::move(progress)),
      inputs_(find_inputs(input_rules(options))),
      total_bytes_(inputs_.bytes()) {}

void Corpus::report(std::string_view stage, int64_t done_bytes) {
  progress_({stage, std::min(done_bytes, total_bytes_), total_bytes_, documents_, total_documents_});
}

CorpusScan Corpus::scan() {
  Scanner scanner(inputs_, rules_, workers_, batch_bytes(options_), [&](int64_t done_bytes, int64_t documents) {
    documents_ = documents;
    report("reading", done_bytes);
  });
  CorpusScan result = scanner.run();
  if (result.documents == 0) {
    const int64_t files = std::ssize(inputs_.taken);
    fail(ExitCode::data, "--input ", some_of(options_.inputs), ": ", counted(files, "file"),
         files == 1 ? " contains" : " contain", " no text (", counted(result.empty_documents, "empty document"),
         "); expected at least one document with text");
  }
  contents_ = scanner.take_contents();
  result.held_out = held_out_rule(scanner.hashes(), std::ssize(inputs_.taken), options_);
  total_documents_ = result.documents;
  return result;
}

void Corpus::for_each_document(std::string_view stage, const std::function<void(Document&)>& work,
                               const TakeDocument& take) {
  int64_t done = 0;
  documents_ = 0;
  report(stage, done);
  const auto documents_of = [&](NumberedPart&& numbered) {
    std::vector<Document> documents;
    read_part(
        inputs_.taken[numbered.file], rules_, std::move(numbered.part),
        [&](Document&& document) {
          if (document.text.empty()) return;
          work(document);
          documents.push_back(std::move(document));
        },
        [](const std::string& problem) { fail(ExitCode::data, problem); });
    return documents;
  };
  OrderedJobs<NumberedPart, std::vector<Document>> parts(workers_, batch_bytes(options_), documents_of,
                                                         [&](std::vector<Document>&& documents) {
                                                           for (Document& document : documents) {
                                                             ++documents_;
                                                             take(std::move(document));
                                                           }
                                                         });
  for (size_t i = 0; i < inputs_.taken.size(); ++i) {
    const InputFile& file = inputs_.taken[i];
    const auto add = [&](FilePart&& part) {
      const int64_t bytes = std::ssize(part.bytes);
      parts.add({i, std::move(part)}, bytes);
    };
    const Digest contents = read_parts(file, rules_, add, [&](int64_t position) { report(stage, done + position); });
    if (contents != contents_[i])
      fail(ExitCode::data, file.path,
           ": has changed since it was first read, expected the same contents; run `hexad prepare` again when the file "
           "no longer changes");
    done += file.bytes;
    report(stage, done);
  }
  parts.finish();
  report(stage, done);
}

}  // namespace hexad::data
