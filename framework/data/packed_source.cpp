#include "framework/data/packed_source.h"

#include <algorithm>
#include <numeric>

#include "framework/base/counted.h"
#include "framework/base/philox.h"
#include "framework/data/permutation.h"

namespace hexad::data {

using namespace base;
namespace {

// Collects the context + 1 tokens of a sequence, document by document, and then writes the row.
class RowBuilder {
 public:
  RowBuilder(const TokenDataset& dataset, int64_t context, Packing packing)
      : dataset_(dataset),
        packing_(packing),
        ids_(static_cast<size_t>(context) + 1, static_cast<int32_t>(dataset.vocab_size() - 1)),
        loss_mask_(ids_.size(), 1) {}

  size_t missing() const { return ids_.size() - used_; }

  // Appends up to missing() tokens, at most `count`, of one document. Returns the number of tokens appended.
  int64_t append(int64_t first, int64_t count) {
    const size_t n = std::min(missing(), static_cast<size_t>(count));
    dataset_.read_ids(first, std::span(ids_).subspan(used_, n));
    dataset_.read_loss_mask(first, std::span(loss_mask_).subspan(used_, n));
    used_ += n;
    ends_.push_back(used_);
    return static_cast<int64_t>(n);
  }

  void write(const Row& row) {
    const size_t context = row.ids.size();
    const size_t text_end = used_;
    if (packing_ == Packing::joined) ends_ = {text_end};
    if (text_end < ids_.size()) ends_.push_back(ids_.size());  // the padding is the last document
    size_t begin = 0;
    for (size_t end : ends_) {
      for (size_t t = begin; t < std::min(end, context); ++t) {
        // The last token of a document predicts nothing if documents are isolated.
        const bool predicts = t + 1 < std::min(end, text_end) && loss_mask_[t + 1] != 0;
        row.ids[t] = ids_[t];
        row.targets[t] = predicts ? ids_[t + 1] : ignored;
        row.first[t] = static_cast<int32_t>(begin);
        row.last[t] = static_cast<int32_t>(std::min(end, context));
      }
      begin = end;
    }
  }

 private:
  const TokenDataset& dataset_;
  Packing packing_;
  std::vector<int32_t> ids_;
  std::vector<uint8_t> loss_mask_;
  std::vector<size_t> ends_;  // end of each document in the sequence
  size_t used_ = 0;
};

int64_t document_at(std::span<const int64_t> starts, int64_t token) {
  // Finds the last document that starts at or before `token`. The search skips empty documents, because an empty
  // document starts where the next document starts.
  return std::upper_bound(starts.begin(), starts.end(), token) - starts.begin() - 1;
}

void check_trainable(const TokenDataset& dataset, int64_t context) {
  require(context >= 1, "[data] context is ", context, "; expected at least 1");
  if (dataset.tokens() == 0) {
    fail(ExitCode::data, dataset.path(), ": has no token (", counted(dataset.documents(), "document"),
         "), expected at least 1 token");
  }
}

}  // namespace

ShuffledSequences::ShuffledSequences(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing,
                                     uint64_t seed)
    : dataset_(std::move(dataset)), context_(context), packing_(packing), seed_(seed) {
  check_trainable(*dataset_, context);
}

int64_t ShuffledSequences::epoch(int64_t index) const { return index * context_ / dataset_->tokens(); }

int64_t ShuffledSequences::first_sequence(int64_t epoch) const {
  return (epoch * dataset_->tokens() + context_ - 1) / context_;
}

int64_t ShuffledSequences::first_token(int64_t epoch) const {
  const Philox random(seed_, Purpose::shuffle, "first document", static_cast<uint64_t>(epoch));
  return dataset_->offsets()[random.below(0, static_cast<uint64_t>(dataset_->documents()))];
}

int64_t ShuffledSequences::piece(int64_t index) const {
  const int64_t epoch = this->epoch(index), first = first_sequence(epoch);
  const Permutation order(first_sequence(epoch + 1) - first,
                          Philox(seed_, Purpose::shuffle, "sequences", static_cast<uint64_t>(epoch)));
  return first + order(index - first);
}

void ShuffledSequences::fill(int64_t index, const Row& row) const {
  const auto offsets = dataset_->offsets();
  const int64_t tokens = dataset_->tokens();
  RowBuilder builder(*dataset_, context_, packing_);
  for (int64_t at = piece(index) * context_; builder.missing() > 0;) {  // position in the stream of epochs
    // Epochs begin and end between documents, so the rest of this document is in the same epoch.
    const int64_t token = (first_token(at / tokens) + at % tokens) % tokens;
    const size_t document = document_at(offsets, token);
    at += builder.append(token, offsets[document + 1] - token);
  }
  builder.write(row);
}

ShuffledDocuments::ShuffledDocuments(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing,
                                     uint64_t seed)
    : dataset_(std::move(dataset)), context_(context), packing_(packing), seed_(seed) {
  check_trainable(*dataset_, context);
}

int64_t ShuffledDocuments::epoch(int64_t index) const { return index * context_ / dataset_->tokens(); }

ShuffledDocuments::Order ShuffledDocuments::draw(int64_t epoch) const {
  const auto offsets = dataset_->offsets();
  Order order{epoch, {}, {}};
  order.documents.resize(dataset_->documents());
  std::iota(order.documents.begin(), order.documents.end(), 0);
  const Philox random(seed_, Purpose::shuffle, "documents", static_cast<uint64_t>(epoch));
  for (size_t i = order.documents.size(); i > 1; --i) {
    std::swap(order.documents[i - 1], order.documents[random.below(i, i)]);
  }
  int64_t start = 0;
  for (int64_t d : order.documents) {
    order.starts.push_back(start);
    start += offsets[d + 1] - offsets[d];
  }
  return order;
}

std::shared_ptr<const ShuffledDocuments::Order> ShuffledDocuments::order(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  auto& kept = orders_[epoch % 2];
  if (!kept || kept->epoch != epoch) kept = std::make_shared<const Order>(draw(epoch));
  return kept;
}

void ShuffledDocuments::fill(int64_t index, const Row& row) const {
  const auto offsets = dataset_->offsets();
  RowBuilder builder(*dataset_, context_, packing_);
  int64_t epoch = index * context_ / dataset_->tokens();
  int64_t at = index * context_ % dataset_->tokens();  // position in the epoch
  while (builder.missing() > 0) {
    const auto order = this->order(epoch);
    for (size_t slot = document_at(order->starts, at); slot < order->documents.size() && builder.missing() > 0;
         ++slot) {
      const size_t document = order->documents[slot];
      const int64_t skipped = at - order->starts[slot];
      const int64_t count = offsets[document + 1] - offsets[document] - skipped;
      if (count > 0) at += builder.append(offsets[document] + skipped, count);
    }
    ++epoch, at = 0;
  }
  builder.write(row);
}

SequentialSource::SequentialSource(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing)
    : dataset_(std::move(dataset)), context_(context), packing_(packing) {
  require(context >= 1, "[data] context is ", context, "; expected at least 1");
  if (dataset_->tokens() < 2) {
    fail(ExitCode::data, dataset_->path(), ": has ", counted(dataset_->tokens(), "token"),
         ", expected at least 2 to predict one");
  }
}

void SequentialSource::fill(int64_t index, const Row& row) const {
  const auto offsets = dataset_->offsets();
  RowBuilder builder(*dataset_, context_, packing_);
  int64_t at = index * context_;
  for (size_t d = document_at(offsets, at); d + 1 < offsets.size() && builder.missing() > 0; ++d) {
    if (offsets[d + 1] > at) at += builder.append(at, offsets[d + 1] - at);
  }
  builder.write(row);
}

}  // namespace hexad::data
