#include <algorithm>
#include <cstddef>
#include <mutex>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/data/bpe_tokenizer.h"

namespace hexad::data {
using namespace base;
namespace {

struct Word {
  std::vector<int32_t> ids;
  int64_t count;
};

// Change of the count and words of one pair, collected over a range of words.
struct PairChange {
  int64_t count = 0;
  std::vector<uint32_t> words = {};  // words in which the pair is new, in ascending order
};
using PairChanges = std::unordered_map<uint64_t, PairChange>;

// The words and, for each pair of adjacent ids, the count of the pair and the words that contain the pair. A merge
// changes only the words that contain its pair. Training therefore takes time proportional to the occurrences of merged
// pairs, not to the number of words times the number of merges.
class PairIndex {
 public:
  PairIndex(std::vector<Word> words, Workers& workers) : words_(std::move(words)), workers_(workers) {
    change(words_.size(), [&](PairChanges& changes, size_t begin, size_t end) {
      for (size_t w = begin; w < end; ++w) {
        const std::vector<int32_t>& ids = words_[w].ids;
        for (size_t i = 0; i + 1 < ids.size(); ++i)
          add(changes, {ids[i], ids[i + 1]}, static_cast<uint32_t>(w), words_[w].count);
      }
    });
    for (const auto& [key, pair] : pairs_) heap_.push({pair.count, key});
  }

  // Finds the most frequent pair. Of several equally frequent pairs, chooses the pair with the smallest left id, then
  // the smallest right id. Returns false if no pair occurs more than once.
  bool most_frequent(Merge& merge) {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      const int64_t count = pairs_.at(top.key).count;
      if (count == top.count) {
        merge = pair_of(top.key);
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
    const std::vector<uint64_t> changed = change(touched.size(), [&](PairChanges& changes, size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) merge_in_word(changes, touched[i], merge, new_id);
    });
    pairs_[key_of(merge)] = {};
    std::vector<uint64_t> born;
    for (const uint64_t key : changed)
      if (const Merge pair = pair_of(key); pair.left == new_id || pair.right == new_id) born.push_back(key);
    std::sort(born.begin(), born.end());
    born.erase(std::unique(born.begin(), born.end()), born.end());
    for (const uint64_t key : born) heap_.push({pairs_[key].count, key});
  }

 private:
  // With fewer words per thread, another thread costs more time than it saves.
  static constexpr size_t least_words_per_thread = 2048;

  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words;  // in ascending order; may contain words that no longer contain the pair
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

  static Merge pair_of(uint64_t key) {
    return {static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xffffffffu)};
  }

  static void add(PairChanges& changes, Merge neighbours, uint32_t word, int64_t count) {
    PairChange& made = changes[key_of(neighbours)];
    made.count += count;
    if (made.words.empty() || made.words.back() != word) made.words.push_back(word);
  }

  // Calls f(changes, begin, end) for ranges of `words` words on several threads, and applies the changes. Returns the
  // keys of the changed pairs, possibly with repetitions. Sums and lists of words do not depend on the ranges.
  template <class F>
  std::vector<uint64_t> change(size_t words, const F& f) {
    const size_t ranges = std::clamp(words / least_words_per_thread, size_t{1}, workers_.count());
    std::vector<PairChanges> changes(ranges);
    workers_.run(ranges, [&](size_t r) { f(changes[r], words * r / ranges, words * (r + 1) / ranges); });
    std::vector<uint64_t> keys;
    for (PairChanges& of_range : changes)
      for (auto& [key, made] : of_range) {
        Pair& pair = pairs_[key];
        pair.count += made.count;
        if (pair.words.empty()) {
          pair.words = std::move(made.words);
        } else {
          pair.words.insert(pair.words.end(), made.words.begin(), made.words.end());
        }
        keys.push_back(key);
      }
    return keys;
  }

  void merge_in_word(PairChanges& changes, uint32_t w, Merge merge, int32_t new_id) {
    std::vector<int32_t>& ids = words_[w].ids;
    const int64_t count = words_[w].count;
    const auto holds_pair = [&](size_t i) {
      return i + 1 < ids.size() && ids[i] == merge.left && ids[i + 1] == merge.right;
    };
    size_t first = 0;
    while (first < ids.size() && !holds_pair(first)) ++first;
    if (first == ids.size()) return;
    // Subtracts all old pairs of the word and adds all new pairs. Runs such as "aaaa" then need no special case.
    for (size_t i = 0; i + 1 < ids.size(); ++i) changes[key_of({ids[i], ids[i + 1]})].count -= count;
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
        add(changes, neighbours, w, count);
      } else {
        changes[key_of(neighbours)].count += count;  // the list of words of this pair already contains this word
      }
    }
  }

  std::vector<Word> words_;
  Workers& workers_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

void BpeTrainer::add(std::string_view document) {
  std::unordered_map<std::string_view, int64_t> counts;
  for_each_piece(document, [&](std::string_view piece) { ++counts[piece]; });
  for (const auto& [piece, count] : counts) {
    Stripe& stripe = stripes_[PieceHash()(piece) % stripes_.size()];
    const std::lock_guard lock(stripe.mutex);
    const auto found = stripe.counts.find(piece);
    if (found != stripe.counts.end()) {
      found->second += count;
    } else {
      stripe.counts.emplace(piece, count);
    }
  }
}

std::unique_ptr<Tokenizer> BpeTrainer::train(int32_t vocab_size, Workers& workers) const {
  constexpr int32_t smallest = 256 + 2, largest = 1'000'000;
  if (vocab_size < smallest || vocab_size > largest) {
    fail(ExitCode::usage, "--vocab asks for a tokenizer vocabulary of ", vocab_size, " ids, expected ", smallest,
         " (256 bytes and 2 special ids) to ", largest, " ids");
  }
  std::vector<Word> words;
  for (const Stripe& stripe : stripes_)
    for (const auto& [piece, count] : stripe.counts) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
      words.push_back({{bytes, bytes + piece.size()}, count});
    }
  PairIndex index(std::move(words), workers);
  std::vector<Merge> merges;
  for (Merge merge; static_cast<int32_t>(merges.size()) < vocab_size - smallest && index.most_frequent(merge);) {
    const auto new_id = static_cast<int32_t>(256 + merges.size());
    index.apply(merge, new_id);
    merges.push_back(merge);
  }
  return make_bpe_tokenizer(std::move(merges));
}

}  // namespace hexad::data
