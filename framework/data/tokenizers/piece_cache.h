// A cache of encoded pieces. It helps because most pieces of a text are words that have occurred before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

class PieceCache {
 public:
  /// Appends the ids of `piece` to `ids`. Calls `encode` if the cache does not contain the piece. `encode` must append
  /// the piece's ids, and may call append() of this cache for other pieces.
  template <class Encode>
  void append(std::string_view piece, std::vector<int32_t>& ids, Encode&& encode) {
    if (piece.size() > longest) return encode();
    const uint64_t hash = std::hash<std::string_view>()(piece);
    if (const Slot* slot = find(piece, hash)) {
      ids.insert(ids.end(), ids_.begin() + slot->ids, ids_.begin() + slot->ids + slot->count);
      return;
    }
    const size_t before = ids.size();
    encode();
    add(piece, hash, ids.data() + before, ids.size() - before);
  }

 private:
  static constexpr size_t longest = 64;          // bytes; longer pieces seldom occur twice
  static constexpr size_t max_slots = 1u << 18;  // at most half of the slots are used

  struct Slot {
    uint64_t hash = 0;
    uint32_t text = 0, ids = 0;     // positions of the piece in text_ and of its ids in ids_
    uint16_t bytes = 0, count = 0;  // numbers of bytes and of ids; `bytes` is 0 in a free slot
  };

  const Slot* find(std::string_view piece, uint64_t hash) const;
  void add(std::string_view piece, uint64_t hash, const int32_t* ids, size_t count);
  Slot& free_slot(uint64_t hash);
  void grow_or_clear();

  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  std::string text_;
  std::vector<int32_t> ids_;
  size_t used_ = 0;
};

/// Pool of caches: lends one cache to each thread that encodes. Returned caches are lent again.
class PieceCaches {
 public:
  class Loan {
   public:
    explicit Loan(PieceCaches& owner) : owner_(owner), cache_(owner.take()) {}
    ~Loan() { owner_.put_back(std::move(cache_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    PieceCache& operator*() const { return *cache_; }

   private:
    PieceCaches& owner_;
    std::unique_ptr<PieceCache> cache_;
  };

 private:
  std::unique_ptr<PieceCache> take();
  void put_back(std::unique_ptr<PieceCache> cache);

  std::mutex mutex_;
  std::vector<std::unique_ptr<PieceCache>> idle_;
};

}  // namespace hexad::data
