// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), as in RFC 3720 and TensorBoard's record files.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::telemetry {

uint32_t crc32c(std::string_view bytes);

/// Returns the checksum as it is stored in record files: rotated and offset, because the data may contain plain
/// checksums.
inline uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace hexad::telemetry
