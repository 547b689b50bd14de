// A hash table from pairs of 32-bit numbers to pairs of 32-bit numbers, faster than std::unordered_map.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hexad::data {

class PairTable {
 public:
  struct Value {
    int32_t rank;
    int32_t id;
  };

  /// Makes a table with capacity for `count` pairs.
  explicit PairTable(size_t count = 0) { make_room(count); }

  /// Sets the value of a pair, replacing an earlier value.
  void set(int32_t left, int32_t right, Value value) {
    if (2 * (count_ + 1) > slots_.size()) make_room(2 * (count_ + 1));
    Slot& slot = slots_[index_of(key_of(left, right))];
    if (slot.key == empty) ++count_;
    slot = {key_of(left, right), value};
  }
  /// Returns the value of a pair; null if the table does not contain the pair.
  const Value* find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[index_of(key_of(left, right))];
    return slot.key == empty ? nullptr : &slot.value;
  }
  size_t size() const { return count_; }

 private:
  static constexpr uint64_t empty = UINT64_MAX;  // the pair (-1, -1) is not used

  struct Slot {
    uint64_t key = empty;
    Value value{};
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Returns the index of the slot of `key`, or of the free slot into which `key` can be inserted.
  size_t index_of(uint64_t key) const {
    size_t at = key * 0x9e3779b97f4a7c15u >> shift_;
    while (slots_[at].key != empty && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void make_room(size_t count) {
    const std::vector<Slot> old = std::move(slots_);
    slots_ = std::vector<Slot>(std::bit_ceil(2 * count + 16));
    shift_ = 64 - std::countr_zero(slots_.size());
    for (const Slot& slot : old)
      if (slot.key != empty) slots_[index_of(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  int shift_ = 0;
  size_t count_ = 0;
};

}  // namespace hexad::data
