#include "framework/data/tokenizers/piece_cache.h"

namespace hexad::data {

const PieceCache::Slot* PieceCache::find(std::string_view piece, uint64_t hash) const {
  for (size_t at = hash & (slots_.size() - 1); slots_[at].bytes != 0; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && std::string_view(text_).substr(slot.text, slot.bytes) == piece) return &slot;
  }
  return nullptr;
}

void PieceCache::add(std::string_view piece, uint64_t hash, const int32_t* ids, size_t count) {
  if (piece.empty()) return;
  if (2 * (used_ + 1) > slots_.size()) grow_or_clear();
  free_slot(hash) = {hash, static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(ids_.size()),
                     static_cast<uint16_t>(piece.size()), static_cast<uint16_t>(count)};
  text_ += piece;
  ids_.insert(ids_.end(), ids, ids + count);
  ++used_;
}

PieceCache::Slot& PieceCache::free_slot(uint64_t hash) {
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at].bytes != 0) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

void PieceCache::grow_or_clear() {
  if (slots_.size() >= max_slots) {
    slots_.assign(slots_.size(), Slot());
    text_.clear(), ids_.clear();
    used_ = 0;
    return;
  }
  const std::vector<Slot> old = std::move(slots_);
  slots_ = std::vector<Slot>(2 * old.size());
  for (const Slot& slot : old)
    if (slot.bytes != 0) free_slot(slot.hash) = slot;
}

std::unique_ptr<PieceCache> PieceCaches::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<PieceCache>();
  std::unique_ptr<PieceCache> cache = std::move(idle_.back());
  idle_.pop_back();
  return cache;
}

void PieceCaches::put_back(std::unique_ptr<PieceCache> cache) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(cache));
}

}  // namespace hexad::data
