#include "framework/data/prepare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "framework/base/atomic_file.h"
#include "framework/data/bpe_tokenizer.h"
#include "framework/data/file.h"
#include "framework/data/jsonl.h"
#include "framework/data/prepared_folder.h"
#include "framework/data/staged_files.h"
#include "framework/data/text_check.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

using namespace base;
namespace {

namespace fs = std::filesystem;
using Progress = std::function<void(const PrepareProgress&)>;

void check(const PrepareOptions& o) {
  if (o.inputs.empty()) fail(ExitCode::usage, "prepare: no input, expected text files or folders");
  if (o.output.empty()) fail(ExitCode::usage, "prepare: no output folder");
  if (!(o.heldout >= 0 && o.heldout < 1)) {
    fail(ExitCode::usage, "prepare: held-out fraction is ", o.heldout, ", expected 0 to below 1");
  }
  if (o.split.longest_bytes != 0 && o.split.longest_bytes < least_split_bytes) {
    fail(ExitCode::usage, "prepare: documents of at most ", o.split.longest_bytes, " bytes, expected 0 (any) or ",
         least_split_bytes, " and more");
  }
  if (o.split.rule == DocumentRule::separator && o.split.separator.empty()) {
    fail(ExitCode::usage,
         "prepare: --split separator needs the line that stands between documents, --separator, which ", "is empty");
  }
}

// Runs over all documents of all files; the text of one file is in memory at a time.
class Corpus {
 public:
  Corpus(const PrepareOptions& options, const Progress& progress)
      : options_(options), progress_(progress), files_(list_files(options.inputs)) {
    // By way of a file in it, so that a trailing slash makes no difference.
    const std::string output =
        fs::weakly_canonical(fs::path(options.output) / summary_file_name).parent_path().string() + "/";
    std::erase_if(files_,
                  [&](const std::string& path) { return fs::weakly_canonical(path).string().starts_with(output); });
    if (files_.empty())
      fail(ExitCode::usage, options.output, ": is the --output, which is not read, and --input has no other file");
    for (const std::string& path : files_) total_bytes_ += ReadFile(path).size();
  }

  int64_t files() const { return static_cast<int64_t>(files_.size()); }

  template <class F>
  void for_each_file(std::string_view stage, F&& f) const {
    int64_t done = 0;
    progress_({stage, done, total_bytes_});
    for (const std::string& path : files_) {
      const std::string text = read_file(path);
      f(path, text);
      done += static_cast<int64_t>(text.size());
      progress_({stage, done, total_bytes_});
    }
  }
  /// Those of one file, empty ones too.
  void for_each_document_of(const std::string& path, std::string_view text,
                            const std::function<void(std::string_view)>& f) const {
    if (!is_jsonl(path)) return data::for_each_document(text, options_.split, f);
    const DocumentSplit split{.separator = "", .longest_bytes = options_.split.longest_bytes};
    for_each_json_text(text, path, options_.jsonl_key,
                       [&](std::string_view document) { data::for_each_document(document, split, f); });
  }
  /// Empty documents are left out.
  template <class F>
  void for_each_document(std::string_view stage, F&& f) const {
    for_each_file(stage, [&](const std::string& path, const std::string& text) {
      for_each_document_of(path, text, [&](std::string_view document) {
        if (!document.empty()) f(document);
      });
    });
  }

 private:
  const PrepareOptions& options_;
  const Progress& progress_;
  std::vector<std::string> files_;
  int64_t total_bytes_ = 0;
};

// A document is held out when its hash is below `threshold`. The threshold is the asked fraction of all hashes, moved
// just enough that neither part is empty: small corpora have few documents.
struct HeldOutRule {
  uint64_t threshold = 0;

  bool operator()(std::string_view document) const { return digest_of(document).low < threshold; }
};

struct Scan {
  Digest inputs;
  int64_t empty_documents = 0;
  HeldOutRule held_out;
};

Scan scan(const Corpus& corpus, const PrepareOptions& options) {
  Scan result;
  StreamingDigest inputs;
  std::vector<uint64_t> hashes;
  corpus.for_each_file("reading", [&](const std::string& path, const std::string& text) {
    if (!options.binary) require_text(text, path);
    const Digest digest = digest_of(text);
    inputs.add(&digest, sizeof digest);
    if (is_jsonl(path)) {  // the same bytes under another name are other documents
      const Digest key = digest_of(options.jsonl_key);
      inputs.add(&key, sizeof key);
    }
    corpus.for_each_document_of(path, text, [&](std::string_view document) {
      if (document.empty()) {
        ++result.empty_documents;
      } else {
        hashes.push_back(digest_of(document).low);
      }
    });
  });
  result.inputs = inputs.value();
  if (hashes.empty()) {
    fail(ExitCode::data, options.inputs.front(), ": ", corpus.files(), " files without any text (",
         result.empty_documents, " empty documents), expected at least one document");
  }
  if (options.heldout > 0) {
    const auto [least, most] = std::minmax_element(hashes.begin(), hashes.end());
    if (*least == *most) {
      fail(ExitCode::data, options.inputs.front(), ": is one document, of which no part can be held out; cut it into ",
           "shorter documents (at most ", options.split.longest_bytes, " bytes now) or give --heldout 0");
    }
    const auto asked = static_cast<uint64_t>(std::ldexp(options.heldout, 64));
    result.held_out.threshold = std::clamp(asked, *least + 1, *most);
  }
  return result;
}

std::unique_ptr<Tokenizer> choose_tokenizer(const PrepareOptions& options, const Corpus& corpus, HeldOutRule held_out) {
  if (options.tokenizer == "bytes") return make_byte_tokenizer();
  if (options.tokenizer != "bpe") return load_tokenizer(options.tokenizer);
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

}  // namespace

double PrepareSummary::bytes_per_token() const {
  return static_cast<double>(train.text_bytes + heldout.text_bytes) /
         static_cast<double>(train.tokens + heldout.tokens);
}

PrepareSummary prepare(const PrepareOptions& options, const Progress& progress) {
  check(options);
  const Corpus corpus(options, progress);
  const Scan scanned = scan(corpus, options);
  const Digest request = request_digest(options, scanned.inputs);
  if (auto earlier = earlier_run(options, request)) return *earlier;
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
  summary.files = corpus.files();
  summary.empty_documents = scanned.empty_documents;
  summary.vocab_size = tokenizer->vocab_size();
  summary.tokenizer = tokenizer->fingerprint().to_string();
  tokenizer->save(staged.path(tokenizer_file_name));
  summary.train = train.finish();
  if (heldout) summary.heldout = heldout->finish();
  write_file(staged.path(summary_file_name), summary_json(options, request, summary));
  staged.commit(prepared_file_names);
  return summary;
}

}  // namespace hexad::data
