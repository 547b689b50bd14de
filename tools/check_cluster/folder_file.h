// Contents of the files by which the ranks check a shared folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hexad::check_cluster {

/// Largest size of a rank's file, in bytes. A longer file counts as torn, because it has neither the old nor the new
/// contents.
inline constexpr size_t max_file_bytes = (1 << 20) + 128;

/// Returns the contents of `version` of the file of `rank`, about 1 MiB of equal lines.
std::string contents_of(int rank, int version);
/// True if text == contents_of(rank, version). Does not build the contents, because a rank that waits for a file calls
/// this function repeatedly.
bool is_contents_of(std::string_view text, int rank, int version);

}  // namespace hexad::check_cluster
