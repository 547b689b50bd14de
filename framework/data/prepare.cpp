#include "framework/data/prepare.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/path_problem.h"
#include "framework/data/bpe_tokenizer.h"
#include "framework/data/file.h"
#include "framework/data/input_files.h"
#include "framework/data/input_problems.h"
#include "framework/data/jsonl.h"
#include "framework/data/prepared_folder.h"
#include "framework/data/staged_files.h"
#include "framework/data/text_check.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

using namespace base;
namespace {

using Progress = std::function<void(const PrepareProgress&)>;

void check(const PrepareOptions& o) {
  if (o.inputs.empty()) fail(ExitCode::usage, "prepare: no input, expected text files or folders");
  if (o.output.empty()) fail(ExitCode::usage, "prepare: no output folder");
  if ((o.tokenizer == "bpe" || o.tokenizer == "bytes") &&
      !(o.choice.end_of_document.empty() && o.choice.pattern.empty()))
    fail(ExitCode::usage,
         "prepare: --end-of-document and --tokenizer-pattern are for tokenizers of other programs; "
         "--tokenizer is ",
         o.tokenizer);
  if (!(o.heldout >= 0 && o.heldout < 1)) {
    fail(ExitCode::usage, "prepare: held-out fraction is ", o.heldout, ", expected 0 to below 1");
  }
  if (o.split.longest_bytes != 0 && o.split.longest_bytes < least_split_bytes) {
    fail(ExitCode::usage, "prepare: documents of at most ", o.split.longest_bytes, " bytes, expected 0 (any) or ",
         least_split_bytes, " and more");
  }
  if (o.split.rule == DocumentRule::separator && o.split.separator.empty()) {
    fail(ExitCode::usage, "prepare: --split separator needs --separator, the line between documents, which is empty");
  }
}

using TakeDocument = std::function<void(std::string_view)>;
using TakeProblem = std::function<void(const std::string&)>;

InputRules rules_of(const PrepareOptions& o) {
  return {o.inputs, o.output, o.include, o.exclude, o.follow_links, o.binary};
}

// Visits all documents of all files, with the text of only one file in memory at a time.
class Corpus {
 public:
  Corpus(const PrepareOptions& options, const Progress& progress)
      : options_(options),
        progress_(progress),
        inputs_(find_inputs(rules_of(options))),
        total_bytes_(inputs_.bytes()) {}

  const InputFiles& inputs() const { return inputs_; }

  /// Calls f(file, contents) for each file. `f` may change the recorded properties of the file.
  template <class F>
  void for_each_file(std::string_view stage, F&& f) {
    int64_t done = 0;
    progress_({stage, done, total_bytes_});
    for (InputFile& file : inputs_.taken) {
      const std::string contents = read_file(file.path);
      f(file, options_.binary ? contents : without_byte_order_mark(contents));
      done += static_cast<int64_t>(contents.size());
      progress_({stage, done, total_bytes_});
    }
  }
  /// Calls `f` for each document of one file, also for empty ones.
  void for_each_document_of(const InputFile& file, std::string_view contents, const TakeDocument& f,
                            const TakeProblem& bad) const {
    if (file.form == TextForm::text) return data::for_each_document(contents, options_.split, f);
    const DocumentSplit split{.separator = "", .longest_bytes = options_.split.longest_bytes};
    const auto take = [&](std::string_view text, int64_t number) {
      if (!options_.binary && text.find('\0') != text.npos)
        return bad(cat(place_of(file.form, file.path, number), ": \"", options_.jsonl_key,
                       "\" is not text: it has a zero byte"));
      data::for_each_document(text, split, f);
    };
    for_each_json_text(file.form, contents, file.path, options_.jsonl_key, take, bad);
  }
  /// Calls `f` for each document that is not empty, in all files.
  template <class F>
  void for_each_document(std::string_view stage, F&& f) {
    for_each_file(stage, [&](const InputFile& file, std::string_view contents) {
      const auto take = [&](std::string_view document) {
        if (!document.empty()) f(document);
      };
      for_each_document_of(file, contents, take, [](const std::string& problem) { fail(ExitCode::data, problem); });
    });
  }

 private:
  const PrepareOptions& options_;
  const Progress& progress_;
  InputFiles inputs_;
  int64_t total_bytes_ = 0;
};

// Rule that selects held-out documents: those whose hash is below `threshold`. The threshold is the requested fraction
// of all hashes. If one part would be empty, because a small corpus has few documents, the threshold is moved just
// enough.
struct HeldOutRule {
  uint64_t threshold = 0;

  bool operator()(std::string_view document) const { return digest_of(document).low < threshold; }
};

struct Scan {
  Digest inputs;
  int64_t empty_documents = 0;
  HeldOutRule held_out;
  std::vector<std::string> unnamed_json;  // files that are probably JSON lines but whose name has another ending
};

// Collects the problems of one file.
class FileProblems {
 public:
  FileProblems(InputProblems& all, const std::string& path) : all_(all), path_(path) {}
  ~FileProblems() {
    if (count_ > most) all_.add(ExitCode::data, cat(path_, ": ", count_ - most, " more of its objects have problems"));
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

Scan scan(Corpus& corpus, const PrepareOptions& options) {
  Scan result;
  StreamingDigest inputs;
  std::vector<uint64_t> hashes;
  InputProblems problems;
  corpus.for_each_file("reading", [&](InputFile& file, std::string_view contents) {
    const TextProblem no_text = options.binary ? TextProblem{} : check_text(contents);
    if (no_text)
      return problems.add(ExitCode::data, cat(file.path, ": ", no_text.what),
                          {std::string(leave_out_remedy), no_text.remedy});
    const Digest digest = digest_of(contents);
    inputs.add(&digest, sizeof digest);
    file.form = form_of(file.path, contents, options.jsonl_key);
    if (is_unnamed_json(file.form, contents, options.jsonl_key)) result.unnamed_json.push_back(file.path);
    if (file.form != TextForm::text) {  // the same bytes in another form contain other documents
      const Digest key = digest_of(options.jsonl_key);
      inputs.add(&key, sizeof key);
    }
    file.has_text = false;
    const auto take = [&](std::string_view document) {
      if (document.empty()) {
        ++result.empty_documents;
      } else {
        file.has_text = true;
        hashes.push_back(digest_of(document).low);
      }
    };
    FileProblems of_file(problems, file.path);
    corpus.for_each_document_of(file, contents, take, [&](const std::string& problem) { of_file.add(problem); });
  });
  problems.throw_if_any();
  result.inputs = inputs.value();
  if (hashes.empty()) {
    fail(ExitCode::data, options.inputs.front(), ": ", counted(std::ssize(corpus.inputs().taken), "file"),
         " without any text (", counted(result.empty_documents, "empty document"), "), expected at least one document");
  }
  if (options.heldout > 0) {
    const auto [least, most] = std::minmax_element(hashes.begin(), hashes.end());
    if (*least == *most) {
      const std::string what = hashes.size() == 1 ? "is one document" : cat("has ", hashes.size(), " equal documents");
      fail(ExitCode::data, options.inputs.front(), ": ", what, ", so no part can be held out; cut ",
           hashes.size() == 1 ? "it" : "them", " into shorter documents (at most ", options.split.longest_bytes,
           " bytes now) or give --heldout 0");
    }
    const auto asked = static_cast<uint64_t>(std::ldexp(options.heldout, 64));
    result.held_out.threshold = std::clamp(asked, *least + 1, *most);
  }
  return result;
}

std::unique_ptr<Tokenizer> choose_tokenizer(const PrepareOptions& options, Corpus& corpus, HeldOutRule held_out) {
  if (options.tokenizer == "bytes") return make_byte_tokenizer();
  if (options.tokenizer != "bpe") {
    if (base::file_problem(options.tokenizer) == "no such file")
      fail(ExitCode::data, options.tokenizer,
           ": there is no such file; --tokenizer: expected bpe, bytes or the path of a tokenizer.json");
    return load_tokenizer(options.tokenizer, options.choice);
  }
  BpeTrainer trainer;
  corpus.for_each_document("training the tokenizer", [&](std::string_view document) {
    if (!held_out(document)) trainer.add(document);
  });
  return trainer.train(options.vocab_size);
}

class PartWriter {
 public:
  PartWriter(const std::string& path, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), writer_(path, tokenizer.vocab_size(), tokenizer.fingerprint()) {}

  void add(std::string_view document) {
    std::vector<int32_t> ids = tokenizer_.encode(document);
    if (const auto first = tokenizer_.beginning_of_document()) ids.insert(ids.begin(), *first);
    ids.push_back(tokenizer_.end_of_document());
    writer_.add_document(ids, static_cast<int64_t>(document.size()));
    part_.documents += 1;
    part_.tokens += static_cast<int64_t>(ids.size());
    part_.text_bytes += static_cast<int64_t>(document.size());
  }
  PreparedPart finish() {
    part_.fingerprint = writer_.finish().to_string();
    return part_;
  }

 private:
  const Tokenizer& tokenizer_;
  TokenDatasetWriter writer_;
  PreparedPart part_;
};

std::string percent(double share) { return fmt::format("{:.3g}%", 100 * share); }

// Adds a warning if the held-out part is too small for a meaningful loss, or is too large or small a fraction of the
// text.
void warn_of_heldout(const PrepareSummary& s, const PrepareOptions& options, std::vector<std::string>& warnings) {
  constexpr int64_t few_tokens = 2000;
  const PreparedPart& part = s.heldout;
  if (part.documents == 0) return;
  if (part.documents == 1 || part.tokens < few_tokens)
    warnings.push_back(
        cat("the held-out part is ", counted(part.documents, "document"), " of ", counted(part.tokens, "token"),
            ", too little for a meaningful held-out loss: give more text, a larger --heldout (", options.heldout,
            " now) or shorter documents (--split-bytes, ", options.split.longest_bytes, " now)"));
  const double share = static_cast<double>(part.text_bytes) / static_cast<double>(part.text_bytes + s.train.text_bytes);
  if (share > 2 * options.heldout + 0.05)
    warnings.push_back(cat("the held-out part takes ", percent(share), " of the text, not the ",
                           percent(options.heldout), " that --heldout asks for: there are only ",
                           counted(part.documents + s.train.documents, "document"), " to choose from"));
  if (share < options.heldout / 2)
    warnings.push_back(cat("the held-out part takes ", percent(share), " of the text, not the ",
                           percent(options.heldout),
                           " that --heldout asks for: documents are drawn whatever their length, and long ones went to "
                           "training; --split-bytes (",
                           options.split.longest_bytes, " now) makes them shorter"));
}

std::vector<std::string> warnings_of(const PrepareSummary& s, const Scan& scanned, const PrepareOptions& options) {
  std::vector<std::string> warnings;
  if (!scanned.unnamed_json.empty())
    warnings.push_back(cat(some_of(scanned.unnamed_json), ": taken as text, but the first line is JSON with the key \"",
                           options.jsonl_key, "\"; in a file named .jsonl each line is a document"));
  for (const std::string& pattern : s.inputs.idle_patterns) warnings.push_back(cat(pattern, " matches no file"));
  InputFiles held_back;
  for (const SkippedFile& file : s.inputs.skipped)
    if (!file.remedy.empty()) held_back.skipped.push_back(file);
  for (const std::string& line : lines_of_skipped(held_back)) warnings.push_back("not taken: " + line);
  warn_of_heldout(s, options, warnings);
  return warnings;
}

}  // namespace

double PrepareSummary::bytes_per_token() const {
  return static_cast<double>(train.text_bytes + heldout.text_bytes) /
         static_cast<double>(train.tokens + heldout.tokens);
}

PrepareSummary prepare(const PrepareOptions& options, const Progress& progress) {
  check(options);
  Corpus corpus(options, progress);
  const Scan scanned = scan(corpus, options);
  const Digest request = request_digest(options, scanned.inputs);
  if (auto earlier = earlier_run(options, request)) {
    earlier->inputs = corpus.inputs();
    earlier->files = earlier->inputs.with_text();  // an older program also counted files without text
    earlier->warnings = warnings_of(*earlier, scanned, options);
    return *earlier;
  }
  if (!options.force) refuse_to_replace(options, request);

  StagedFiles staged(options.output);
  const auto tokenizer = choose_tokenizer(options, corpus, scanned.held_out);
  PartWriter train(staged.path(train_file_name), *tokenizer);
  std::optional<PartWriter> heldout;
  if (options.heldout > 0) heldout.emplace(staged.path(heldout_file_name), *tokenizer);
  corpus.for_each_document("encoding", [&](std::string_view document) {
    (heldout && scanned.held_out(document) ? *heldout : train).add(document);
  });

  PrepareSummary summary;
  summary.files = corpus.inputs().with_text();
  summary.empty_documents = scanned.empty_documents;
  summary.vocab_size = tokenizer->vocab_size();
  summary.tokenizer = tokenizer->fingerprint().to_string();
  tokenizer->save(staged.path(tokenizer_file_name));
  summary.train = train.finish();
  if (heldout) summary.heldout = heldout->finish();
  summary.inputs = corpus.inputs();
  summary.warnings = warnings_of(summary, scanned, options);
  write_file(staged.path(summary_file_name), summary_json(options, request, summary));
  staged.commit(prepared_file_names);
  return summary;
}

}  // namespace hexad::data
