#include "framework/data/prepare.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "framework/base/atomic_file.h"
#include "framework/base/path_problem.h"
#include "framework/data/bpe_tokenizer.h"
#include "framework/data/chat_form.h"
#include "framework/data/conversation.h"
#include "framework/data/corpus.h"
#include "framework/data/encoding.h"
#include "framework/data/file.h"
#include "framework/data/ordered_jobs.h"
#include "framework/data/prepare_warnings.h"
#include "framework/data/prepared_folder.h"
#include "framework/data/staged_files.h"
#include "framework/data/tokenizer.h"
#include "framework/data/unfinished_dataset.h"
#include "framework/data/workers.h"

namespace hexad::data {

using namespace base;
namespace {

using Progress = std::function<void(const PrepareProgress&)>;

void check(const PrepareOptions& o) {
  if (o.inputs.empty()) fail(ExitCode::usage, "prepare: --input is not given, expected text files or folders");
  if (o.output.empty()) fail(ExitCode::usage, "prepare: --output is not given, expected a folder");
  if ((o.tokenizer == "bpe" || o.tokenizer == "bytes") &&
      !(o.choice.end_of_document.empty() && o.choice.pattern.empty()))
    fail(ExitCode::usage,
         "prepare: --end-of-document and --tokenizer-pattern are for tokenizers of other programs, "
         "but --tokenizer is ",
         o.tokenizer, "; remove these options");
  if (!(o.heldout >= 0 && o.heldout < 1)) {
    fail(ExitCode::usage, "prepare: --heldout is ", o.heldout, ", expected at least 0 and less than 1");
  }
  if (o.split.longest_bytes != 0 && o.split.longest_bytes < least_split_bytes) {
    fail(ExitCode::usage, "prepare: --split-bytes ", o.split.longest_bytes, ", expected 0 (no limit) or at least ",
         least_split_bytes, " bytes");
  }
  if (o.split.rule == DocumentRule::separator && o.split.separator.empty()) {
    fail(ExitCode::usage,
         "prepare: --split is separator, but --separator is empty, expected the line between documents");
  }
  if (o.chat_form == model_form_name && (o.tokenizer == "bpe" || o.tokenizer == "bytes"))
    fail(ExitCode::usage,
         "prepare: --chat-form model needs the folder of a model (--tokenizer FOLDER), but --tokenizer is ",
         o.tokenizer, "; give the folder, or choose another --chat-form");
  if (!o.chat_form.empty() && o.chat_form != model_form_name) chat_form(o.chat_form);
  if (o.workers < 1) fail(ExitCode::usage, "prepare: --workers ", o.workers, ", expected at least 1");
}

// Throws Error(data) if the file of the tokenizer does not exist or is damaged. Throws Error(usage) if options.choice
// does not apply to the tokenizer. prepare() calls this function before it reads the text, because reading the text
// takes long.
void check_tokenizer(const PrepareOptions& o) {
  if (o.tokenizer == "bpe" || o.tokenizer == "bytes") return;
  if (base::file_problem(o.tokenizer) == "no such file")
    fail(ExitCode::data, o.tokenizer,
         ": there is no such file; expected --tokenizer bpe, bytes or the path of a tokenizer");
  load_tokenizer(o.tokenizer, o.choice);
}

std::unique_ptr<Tokenizer> choose_tokenizer(const PrepareOptions& options, Corpus& corpus, HeldOutRule held_out,
                                            Workers& workers) {
  if (options.tokenizer == "bytes") return make_byte_tokenizer();
  if (options.tokenizer != "bpe") return load_tokenizer(options.tokenizer, options.choice);
  BpeTrainer trainer;
  const auto count = [&](Document& document) {
    if (!held_out(document.text)) trainer.add(document.text);
    document = {};  // frees the memory of the document early
  };
  corpus.for_each_document("training the tokenizer", count, [](Document&&) {});
  return trainer.train(options.vocab_size, workers);
}

// Converts documents to tokens, except the first `documents_done` documents, and adds them to `shards`.
void encode_corpus(const PrepareOptions& options, Corpus& corpus, HeldOutRule held_out, const Tokenizer& tokenizer,
                   int64_t documents_done, Workers& workers, ShardWriter& shards) {
  constexpr int64_t batch_bytes = int64_t{256} << 10;
  const bool with_mask = !options.chat_form.empty();
  const auto encode = [&](Document&& document) {
    EncodedDocument encoded = encode_document(tokenizer, document, with_mask);
    encoded.held_out = options.heldout > 0 && held_out(document.text);
    return encoded;
  };
  OrderedJobs<Document, EncodedDocument> jobs(workers, std::min(batch_bytes, options.shard_bytes), encode,
                                              [&](EncodedDocument&& document) { shards.add(document); });
  const auto take = [&](Document&& document) {
    if (documents_done > 0) {
      --documents_done;
    } else {
      const int64_t bytes = std::ssize(document.text);
      jobs.add(std::move(document), bytes);
    }
  };
  corpus.for_each_document(
      "encoding", [](Document&) {}, take);
  jobs.finish();
  shards.finish();
}

}  // namespace

double PrepareSummary::bytes_per_token() const {
  return static_cast<double>(train.text_bytes + heldout.text_bytes) /
         static_cast<double>(train.tokens + heldout.tokens);
}

PrepareSummary prepare(const PrepareOptions& options, const Progress& progress) {
  check(options);
  check_tokenizer(options);
  Workers workers(options.workers);
  Corpus corpus(options, workers, progress);
  const CorpusScan scan = corpus.scan();
  const Digest request = request_digest(options, scan.inputs);
  if (auto earlier = earlier_run(options, request)) {
    remove_leftover_shards(options.output, request);
    earlier->inputs = corpus.inputs();
    earlier->files = earlier->inputs.with_text();  // older versions of this program also counted files without text
    const auto tokenizer = load_tokenizer(options.output + "/" + std::string(tokenizer_file_name));
    earlier->warnings = warnings_of(*earlier, scan, options, *tokenizer);
    return *earlier;
  }
  if (!options.force) refuse_to_replace(options, request);

  UnfinishedDataset unfinished(options, request);
  if (!options.force)
    refuse_to_replace(options, request);  // another process may have finished before this process took the lock
  StagedFiles staged(options.output);
  PrepareSummary summary;
  summary.resumed_documents = unfinished.documents();
  std::unique_ptr<Tokenizer> tokenizer;
  if (summary.resumed_documents > 0) {
    tokenizer = load_tokenizer(unfinished.tokenizer_path());
  } else {
    tokenizer = choose_tokenizer(options, corpus, scan.held_out, workers);
    tokenizer->save(unfinished.tokenizer_path());
  }
  ShardWriter shards(
      unfinished, *tokenizer,
      {.held_out = options.heldout > 0, .loss_mask = !options.chat_form.empty(), .shard_bytes = options.shard_bytes});
  try {
    encode_corpus(options, corpus, scan.held_out, *tokenizer, summary.resumed_documents, workers, shards);
  } catch (const ReadError&) {  // keeps the shards, because the next run may be able to read the file
    throw;
  } catch (const Error& error) {
    if (error.code() == ExitCode::data) unfinished.discard();  // a file may have changed after a part of it was encoded
    throw;
  }
  summary.files = corpus.inputs().with_text();
  summary.empty_documents = scan.empty_documents;
  summary.vocab_size = tokenizer->vocab_size();
  summary.tokenizer = tokenizer->fingerprint().to_string();
  tokenizer->save(staged.path(tokenizer_file_name));
  summary.train = shards.join(train_file_name, staged.path(train_file_name));
  if (options.heldout > 0) summary.heldout = shards.join(heldout_file_name, staged.path(heldout_file_name));
  summary.inputs = corpus.inputs();
  summary.warnings = warnings_of(summary, scan, options, *tokenizer);
  if (!unfinished.damage().empty()) summary.warnings.push_back(unfinished.damage());
  write_file(staged.path(summary_file_name), summary_json(options, request, summary));
  staged.commit(prepared_file_names);
  unfinished.discard();
  return summary;
}

}  // namespace hexad::data
