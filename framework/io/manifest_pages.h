// Division of a large manifest into files, so that a reader parses only the pages with the tensors that it needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/io/manifest.h"

namespace hexad::io {

/// Returns the name and the kind of a tensor, or of the first tensor of a page. The tensors of a manifest are sorted by
/// name, then by kind.
inline constexpr auto key_of = [](const auto& t) { return std::pair(std::string_view(t.name), t.kind); };

inline constexpr const char* manifest_name = "manifest.json";

/// Name of a file in the folder of a checkpoint, and its text.
struct ManifestFile {
  std::string name, text;
};

/// Returns the files of `manifest`, which must have no pages yet; manifest.json is last. The tensors are divided into
/// pages if there are several tensors with more than `page_pieces` pieces in total. A page contains whole tensors: at
/// least one tensor, and more tensors as long as the page has at most `page_pieces` pieces. Reports progress to `work`
/// after each page.
std::vector<ManifestFile> manifest_files(Manifest manifest, int64_t page_pieces, const FileWork& work = {});

/// Parses the text of page `page` of a manifest. Throws Error(data) if the text does not have the digest that the
/// manifest states, or is inconsistent. The message begins with `where`.
std::vector<TensorRecord> page_from_json(const Manifest& manifest, size_t page, std::string_view text,
                                         const std::string& where);

}  // namespace hexad::io
