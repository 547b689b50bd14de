// Conversion of documents to token ids, on several threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "framework/data/document.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

struct EncodedDocument {
  std::vector<int32_t> ids = {};        // with end-of-document and, if the tokenizer has it, beginning-of-document
  std::vector<uint8_t> loss_mask = {};  // 1: the token is a target; empty without a mask
  int64_t text_bytes = 0;
  bool held_out = false;
};

/// Returns the number of ids of the mark after an answer that are targets. `ids` are those of the mark. The first
/// special token, which has no text, ends an answer, so it is the last target. Without a special token, all ids are
/// targets.
size_t targets_of_end(const Tokenizer& tokenizer, std::span<const int32_t> ids);

/// Converts a document. Parts of a conversation are converted one by one; special tokens are recognised only in marks
/// of the chat form. If `with_mask` is true, makes a loss mask. Tokens of answers are targets. The end-of-document is a
/// target if the last turn with text is an answer. All tokens of plain text are targets. Errors of the tokenizer name
/// the location of the document.
EncodedDocument encode_document(const Tokenizer& tokenizer, const Document& document, bool with_mask);

/// Applies a function to documents on several threads. Results arrive in the order of the documents, on the thread of
/// the caller, so they do not depend on the number of threads.
class EncodingPool {
 public:
  using Encode = std::function<EncodedDocument(const Document& document)>;
  using TakeEncoded = std::function<void(EncodedDocument&& document)>;

  /// Starts `workers` threads, at least 1. `encode` must be thread-safe. `take` receives the results during add() and
  /// finish(). Documents are passed to the threads in batches of about `batch_bytes` of text. Throws Error(resource) if
  /// the system cannot start that many threads.
  EncodingPool(int workers, int64_t batch_bytes, Encode encode, TakeEncoded take);
  /// Stops the threads. Results that have not been taken are lost.
  ~EncodingPool();
  EncodingPool(const EncodingPool&) = delete;
  EncodingPool& operator=(const EncodingPool&) = delete;

  /// Adds a document. Waits while too many documents are pending. Rethrows exceptions of `encode` and `take`.
  void add(Document&& document);
  /// Waits until all documents are encoded and passed to `take`. Rethrows like add().
  void finish();

 private:
  struct Batch {
    std::vector<Document> documents = {};
    std::vector<EncodedDocument> encoded = {};
    std::exception_ptr error = nullptr;
    bool done = false;
  };

  void work();
  void stop();
  void submit();
  void take_first();

  int64_t batch_bytes_;
  Encode encode_;
  TakeEncoded take_;
  size_t most_in_flight_;
  Batch filling_;
  int64_t filling_bytes_ = 0;
  std::mutex mutex_;  // guards in_flight_, started_, stop_ and Batch::done
  std::condition_variable submitted_, completed_;
  std::deque<std::unique_ptr<Batch>> in_flight_;  // in the order of the documents
  size_t started_ = 0;                            // number of batches at the front that a thread has begun
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hexad::data
