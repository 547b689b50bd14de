// Division of a large manifest into files, so that a reader parses only the records of the tensors that it needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/manifest.h"

namespace hexad::io {

/// Name of a file in the folder of a checkpoint, and its text.
struct ManifestFile {
  std::string name, text;
};

/// Returns the files of a manifest without pages, manifest.json last. If the tensors have more than `page_pieces`
/// pieces, they are divided into pages: a page has as many whole tensors as have at most `page_pieces` pieces, and at
/// least one.
/// Reports progress to `work` after each page.
std::vector<ManifestFile> manifest_files(Manifest manifest, int64_t page_pieces, const FileWork& work = {});

/// Parses page `page` of a manifest. Throws Error(data) beginning with `where` if the text is not the page that the
/// manifest names, or is inconsistent.
std::vector<TensorRecord> page_from_json(const Manifest& manifest, size_t page, std::string_view text,
                                         const std::string& where);

}  // namespace hexad::io
