#include <algorithm>
#include <queue>
#include <unordered_map>

#include "framework/base/error.h"
#include "framework/data/bpe_tokenizer.h"

namespace hexad::data {
using namespace base;
namespace {

struct Word {
  std::vector<int32_t> ids;
  int64_t count;
};

// The words, and for each pair of adjacent ids its count and the words that contain it. A merge changes only the words
// that contain its pair. Training therefore takes time proportional to the occurrences of merged pairs, not to words x
// merges.
class PairIndex {
 public:
  explicit PairIndex(std::vector<Word> words) : words_(std::move(words)) {
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const std::vector<int32_t>& ids = words_[w].ids;
      for (size_t i = 0; i + 1 < ids.size(); ++i) add({ids[i], ids[i + 1]}, w, words_[w].count);
    }
    for (const auto& [key, pair] : pairs_) heap_.push({pair.count, key});
  }

  // Finds the most frequent pair. Of equally frequent pairs, chooses the pair with the smallest left id, then the
  // smallest right id. Returns false if no pair occurs more than once.
  bool most_frequent(Merge& merge) {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      const int64_t count = pairs_.at(top.key).count;
      if (count == top.count) {
        merge = {static_cast<int32_t>(top.key >> 32), static_cast<int32_t>(top.key & 0xffffffffu)};
        return count >= 2;
      }
      // The count of this entry is outdated, because counts fall after an entry is pushed. The entry is pushed again
      // with the current count.
      heap_.pop();
      if (count > 0) heap_.push({count, top.key});
    }
    return false;
  }

  void apply(Merge merge, int32_t new_id) {
    const std::vector<uint32_t> touched = std::move(pairs_[key_of(merge)].words);
    std::vector<uint64_t> born;
    for (uint32_t w : touched) merge_in_word(w, merge, new_id, born);
    pairs_[key_of(merge)] = {};
    std::sort(born.begin(), born.end());
    born.erase(std::unique(born.begin(), born.end()), born.end());
    for (uint64_t key : born) heap_.push({pairs_[key].count, key});
  }

 private:
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words;  // may contain duplicates and words that no longer contain the pair; both are harmless
  };
  struct Candidate {
    int64_t count;
    uint64_t key;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  static uint64_t key_of(Merge m) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(m.left)) << 32) | static_cast<uint32_t>(m.right);
  }

  void add(Merge neighbours, uint32_t word, int64_t count) {
    Pair& pair = pairs_[key_of(neighbours)];
    pair.count += count;
    if (count > 0 && (pair.words.empty() || pair.words.back() != word)) pair.words.push_back(word);
  }

  void merge_in_word(uint32_t w, Merge merge, int32_t new_id, std::vector<uint64_t>& born) {
    std::vector<int32_t>& ids = words_[w].ids;
    const int64_t count = words_[w].count;
    const auto holds_pair = [&](size_t i) {
      return i + 1 < ids.size() && ids[i] == merge.left && ids[i + 1] == merge.right;
    };
    size_t first = 0;
    while (first < ids.size() && !holds_pair(first)) ++first;
    if (first == ids.size()) return;
    // Subtracts all old pairs of the word and adds all new pairs. Runs such as "aaaa" then need no special case.
    for (size_t i = 0; i + 1 < ids.size(); ++i) add({ids[i], ids[i + 1]}, w, -count);
    size_t out = first;
    for (size_t in = first; in < ids.size(); ++out) {
      const bool here = holds_pair(in);
      const int32_t id = here ? new_id : ids[in];
      in += here ? 2 : 1;
      ids[out] = id;
    }
    ids.resize(out);
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge neighbours{ids[i], ids[i + 1]};
      const bool is_new = neighbours.left == new_id || neighbours.right == new_id;
      if (is_new) {
        add(neighbours, w, count);
        born.push_back(key_of(neighbours));
      } else {
        pairs_[key_of(neighbours)].count += count;  // the list of words of this pair already contains this word
      }
    }
  }

  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

void BpeTrainer::add(std::string_view document) {
  for_each_piece(document, [&](std::string_view piece) {
    const auto found = piece_counts_.find(piece);
    if (found != piece_counts_.end()) {
      ++found->second;
    } else {
      piece_counts_.emplace(piece, 1);
    }
  });
}

std::unique_ptr<Tokenizer> BpeTrainer::train(int32_t vocab_size) const {
  constexpr int32_t smallest = 256 + 2, largest = 1'000'000;
  if (vocab_size < smallest || vocab_size > largest) {
    fail(ExitCode::usage, "tokenizer vocabulary of ", vocab_size, " ids, expected ", smallest,
         " (bytes and 2 special ids) to ", largest);
  }
  std::vector<Word> words;
  for (const auto& [piece, count] : piece_counts_) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
    words.push_back({{bytes, bytes + piece.size()}, count});
  }
  PairIndex index(std::move(words));
  std::vector<Merge> merges;
  for (Merge merge; static_cast<int32_t>(merges.size()) < vocab_size - smallest && index.most_frequent(merge);) {
    const auto new_id = static_cast<int32_t>(256 + merges.size());
    index.apply(merge, new_id);
    merges.push_back(merge);
  }
  return make_bpe_tokenizer(std::move(merges));
}

}  // namespace hexad::data
