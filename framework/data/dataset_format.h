// Layout of a token dataset file (.hxd). All numbers are little-endian:
//   DatasetHeader | token ids, u16 or u32 | loss mask, u8 per token, if has_loss_mask | documents + 1 offsets, i64
// Document d consists of the tokens [offset[d], offset[d + 1]). The last offset is the number of tokens.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "framework/data/digest.h"

namespace hexad::data {

static_assert(std::endian::native == std::endian::little, "dataset files are read without byte swapping");

inline constexpr std::array<char, 8> dataset_magic{'H', 'E', 'X', 'A', 'D', 'T', 'O', 'K'};
inline constexpr uint32_t dataset_version = 1;

struct DatasetHeader {
  std::array<char, 8> magic = dataset_magic;
  uint32_t version = dataset_version;
  uint16_t bytes_per_id = 0;  // bytes of a token id: 2 or 4
  uint16_t has_loss_mask = 0;
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;  // total bytes of the text of the documents, for bits per byte
  int64_t vocab_size = 0;
  Digest tokenizer;
  Digest contents;  // digest of all bytes after the header
  Digest header;    // digest of the members above, including `contents`; identifies the whole file
};
static_assert(sizeof(DatasetHeader) == 96,
              "DatasetHeader must have no padding, because its memory is written to the file");

/// Returns the digest to store in header.header.
inline Digest header_digest(const DatasetHeader& header) {
  return digest_of({reinterpret_cast<const char*>(&header), offsetof(DatasetHeader, header)});
}

}  // namespace hexad::data
