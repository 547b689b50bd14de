#include "framework/io/manifest_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "framework/data/digest.h"
#include "framework/io/json.h"
#include "framework/io/manifest_json.h"

namespace hexad::io {

using namespace base;

namespace {

// Returns the number of tensors, counted from the first, that fit into one page.
size_t fitting(std::span<const TensorRecord> tensors, int64_t page_pieces) {
  int64_t pieces = 0;
  size_t count = 0;
  for (const TensorRecord& t : tensors) {
    pieces += std::ssize(t.pieces);
    if (count > 0 && pieces > page_pieces) break;
    ++count;
  }
  return count;
}

}  // namespace

std::vector<ManifestFile> manifest_files(Manifest manifest, int64_t page_pieces, const FileWork& work) {
  const std::vector<TensorRecord>& tensors = manifest.tensors;
  if (fitting(tensors, page_pieces) == tensors.size()) return {ManifestFile{manifest_name, manifest_to_json(manifest)}};
  std::vector<ManifestFile> files;
  for (size_t first = 0; first < tensors.size();) {
    const auto page = std::span(tensors).subspan(first);
    const size_t count = fitting(page, page_pieces);
    Json list = Json::array();
    for (const TensorRecord& t : page.first(count)) list.push_back(to_json(t));
    ManifestFile file{fmt::format("tensors-{:05}.json", files.size()),
                      Json{{"tensors", std::move(list)}}.dump() + "\n"};
    manifest.pages.push_back(
        {{file.name, static_cast<int64_t>(file.text.size()), data::digest_of(file.text).to_string()},
         page.front().name,
         page.front().kind});
    work.moved(file.name);
    files.push_back(std::move(file));
    first += count;
  }
  manifest.tensors.clear();
  files.push_back({manifest_name, manifest_to_json(manifest)});
  return files;
}

std::vector<TensorRecord> page_from_json(const Manifest& manifest, size_t page, std::string_view text,
                                         const std::string& where) {
  const ManifestPage& expected = manifest.pages[page];
  const std::string digest = data::digest_of(text).to_string();
  if (digest != expected.file.digest)
    fail(ExitCode::data, where, ": is damaged: digest ", digest, ", expected ", expected.file.digest);
  const Json document = parse_json(text, where);
  const JsonNode list = JsonNode(document, where)["tensors"];
  std::vector<TensorRecord> tensors;
  list.each([&](const JsonNode& node) {
    tensors.push_back(whole_tensor_from(node, manifest.shards.size()));
    const auto mine = key_of(tensors.back());
    const bool after_previous =
        tensors.size() == 1 ? mine == key_of(expected) : key_of(tensors[tensors.size() - 2]) < mine;
    const bool before_next = page + 1 == manifest.pages.size() || mine < key_of(manifest.pages[page + 1]);
    node.check(after_previous && before_next, "a tensor of this page, in the order of names and kinds");
  });
  list.check(!tensors.empty(), "at least one tensor");
  return tensors;
}

}  // namespace hexad::io
