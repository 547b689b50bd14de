#include "framework/data/encoding.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/base/error.h"

namespace hexad::data {

namespace {

EncodedDocument encode_parts(const Tokenizer& tokenizer, const Document& document, bool with_mask) {
  EncodedDocument encoded{.text_bytes = static_cast<int64_t>(document.text.size())};
  const auto first = tokenizer.beginning_of_document();
  const auto append = [&](const std::vector<int32_t>& ids, size_t targets) {
    // The marks of a chat form may already contain the beginning-of-document token.
    const bool begins = encoded.ids.empty() && first && (ids.empty() || ids.front() != *first);
    if (begins) encoded.ids.push_back(*first);
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    if (!with_mask) return;
    if (begins) encoded.loss_mask.push_back(0);
    for (size_t i = 0; i < ids.size(); ++i) encoded.loss_mask.push_back(i < targets ? 1 : 0);
  };
  const std::string_view text = document.text;
  if (document.parts.empty()) {
    const std::vector<int32_t> ids = tokenizer.encode(text);
    append(ids, ids.size());
  }
  size_t begin = 0;
  for (size_t i = 0; i < document.parts.size(); ++i) {
    const DocumentPart& part = document.parts[i];
    const std::string_view piece = text.substr(begin, part.end - begin);
    const std::vector<int32_t> ids = part.mark ? tokenizer.encode_with_special(piece) : tokenizer.encode(piece);
    const bool ends_answer = part.mark && (i + 1 == document.parts.size() || !document.parts[i + 1].answer);
    append(ids, !part.answer ? 0 : ends_answer ? targets_of_end(tokenizer, ids) : ids.size());
    begin = part.end;
  }
  encoded.ids.push_back(tokenizer.end_of_document());
  if (with_mask) encoded.loss_mask.push_back(document.parts.empty() || document.ends_with_answer() ? 1 : 0);
  return encoded;
}

}  // namespace

size_t targets_of_end(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (tokenizer.bytes_of(ids[i]).empty()) return i + 1;
  return ids.size();
}

EncodedDocument encode_document(const Tokenizer& tokenizer, const Document& document, bool with_mask) {
  try {
    return encode_parts(tokenizer, document, with_mask);
  } catch (const base::Error& error) {
    if (document.place.empty()) throw;
    base::fail(error.code(), document.place, ": ", error.what());
  }
}

EncodingPool::EncodingPool(int workers, int64_t batch_bytes, Encode encode, TakeEncoded take)
    : batch_bytes_(batch_bytes),
      encode_(std::move(encode)),
      take_(std::move(take)),
      most_in_flight_(2 * static_cast<size_t>(std::max(1, workers)) + 1) {
  try {
    for (int i = 0; i < std::max(1, workers); ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    stop();  // without this, the destructors of the threads would end the program
    base::fail(base::ExitCode::resource, "only ", started, " of ", workers, " threads could be started (",
               error.code().message(), "); give a smaller --workers");
  }
}

EncodingPool::~EncodingPool() { stop(); }

void EncodingPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  submitted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void EncodingPool::add(Document&& document) {
  filling_bytes_ += static_cast<int64_t>(document.text.size());
  filling_.documents.push_back(std::move(document));
  if (filling_bytes_ >= batch_bytes_) submit();
}

void EncodingPool::finish() {
  if (!filling_.documents.empty()) submit();
  while (!in_flight_.empty()) take_first();
}

void EncodingPool::submit() {
  while (in_flight_.size() >= most_in_flight_) take_first();
  {
    const std::lock_guard lock(mutex_);
    in_flight_.push_back(std::make_unique<Batch>(std::move(filling_)));
  }
  submitted_.notify_one();
  filling_ = {};
  filling_bytes_ = 0;
}

// Waits for the oldest batch and passes its results on.
void EncodingPool::take_first() {
  std::unique_ptr<Batch> batch;
  {
    std::unique_lock lock(mutex_);
    completed_.wait(lock, [&] { return in_flight_.front()->done; });
    batch = std::move(in_flight_.front());
    in_flight_.pop_front();
    --started_;
  }
  if (batch->error) std::rethrow_exception(batch->error);
  for (EncodedDocument& document : batch->encoded) take_(std::move(document));
}

void EncodingPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    submitted_.wait(lock, [&] { return stop_ || started_ < in_flight_.size(); });
    if (stop_) return;
    Batch& batch = *in_flight_[started_++];
    lock.unlock();
    try {
      for (const Document& document : batch.documents) batch.encoded.push_back(encode_(document));
    } catch (...) {
      batch.error = std::current_exception();
    }
    lock.lock();
    batch.done = true;
    completed_.notify_one();
  }
}

}  // namespace hexad::data
