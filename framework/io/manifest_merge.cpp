#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "framework/io/json.h"
#include "framework/io/manifest.h"
#include "framework/io/manifest_json.h"
#include "framework/io/manifest_pages.h"

namespace hexad::io {

using namespace base;

namespace {

constexpr const char* where = "[checkpoint] part of a shard";

using Corner = std::array<int64_t, Shape::max_rank>;

// Adds the corners of a region to `corners`. The value of the first corner is `sign`, and the signs alternate along
// each dimension. Removes the corners whose values add up to 0. Exactly the corners of the union of all added regions
// remain if the regions do not overlap.
void add_corners(const Region& region, int sign, std::map<Corner, int64_t>& corners) {
  const int rank = region.size.rank();
  for (unsigned ends = 0; ends < 1u << rank; ++ends) {  // bit d is set for the end of the region along dimension d
    Corner corner{};
    for (int d = 0; d < rank; ++d) corner[d] = region.begin[d] + (ends >> d & 1 ? region.size[d] : 0);
    const auto at = corners.try_emplace(corner, 0).first;
    at->second += std::popcount(ends) % 2 ? -sign : sign;
    if (at->second == 0) corners.erase(at);
  }
}

// True if the regions make up the whole shape, without gaps and overlaps. The signed corners are the mixed differences
// of a function: the number of regions that contain a position. The signed corners determine this function. The
// function is 1 inside the shape and 0 outside if the signed corners equal the corners of the shape. Takes O(n log n)
// time for n regions.
bool make_up(const std::vector<Region>& regions, const Shape& shape) {
  std::map<Corner, int64_t> corners;
  for (const Region& region : regions) add_corners(region, 1, corners);
  if (shape.numel() > 0) add_corners(whole(shape), -1, corners);
  return corners.empty();
}

// Throws std::logic_error that names two overlapping regions, if there are any.
void refuse_overlaps(const TensorRecord& t, std::vector<Region> regions) {
  // Sorts by the begin in dimension 0. A region that begins at or after the end of another region cannot overlap it.
  std::ranges::sort(regions, {}, [](const Region& r) { return r.begin[0]; });
  for (size_t i = 0; i < regions.size(); ++i) {
    const int64_t end = regions[i].begin[0] + regions[i].size[0];
    for (size_t j = i + 1; j < regions.size() && regions[j].begin[0] < end; ++j) {
      if (intersection(regions[i], regions[j]).size.numel() > 0)
        fail_invariant(cat("[checkpoint] ", name_of(t.kind), " '", t.name,
                           "' is written twice: ", to_string(regions[i]), " and ", to_string(regions[j]),
                           "; expected regions without overlap"));
    }
  }
}

void require_tiling(const TensorRecord& t) {
  std::vector<Region> regions;
  int64_t elements = 0;
  for (const Piece& p : t.pieces) {
    elements += p.region.size.numel();
    if (p.region.size.numel() > 0) regions.push_back(p.region);
  }
  require(elements == t.shape.numel(), "[checkpoint] pieces of ", name_of(t.kind), " '", t.name, "' ", t.shape,
          " hold ", elements, " elements (number of pieces: ", t.pieces.size(), "), expected ", t.shape.numel(),
          " elements");
  if (t.shape.rank() == 0 || make_up(regions, t.shape)) return;
  refuse_overlaps(t, regions);
  fail_invariant(cat("[checkpoint] the pieces of ", name_of(t.kind), " '", t.name, "' ", t.shape,
                     " do not overlap and do not cover it; expected pieces without gaps"));
}

ShardPart part_from_json(const std::string& text) {
  const Json document = parse_json(text, where);
  const JsonNode root(document, where);
  ShardPart part{static_cast<int>(root["index"].integer(0, INT32_MAX)),
                 static_cast<int>(root["count"].integer(1, INT32_MAX)),
                 shard_from(root["shard"]),
                 {}};
  root["tensors"].each([&](const JsonNode& node) { part.tensors.push_back(tensor_from(node, part.count)); });
  return part;
}

// Number of merged tensors after which progress is reported.
constexpr size_t tensors_per_report = 1024;

}  // namespace

std::string part_to_json(const ShardPart& part) {
  Json tensors = Json::array();
  for (const TensorRecord& tensor : part.tensors) tensors.push_back(to_json(tensor));
  return Json{
      {"index", part.index}, {"count", part.count}, {"shard", to_json(part.shard)}, {"tensors", std::move(tensors)}}
      .dump();
}

Manifest merge_parts(const RunState& run, std::span<const std::string> parts, const FileWork& work) {
  Manifest manifest{.run = run, .shards = std::vector<ShardRecord>(parts.size()), .tensors = {}};
  std::map<std::pair<std::string, Kind>, TensorRecord> merged;
  for (const std::string& text : parts) {
    ShardPart part = part_from_json(text);
    work.moved(part.shard.file);
    require(part.count == static_cast<int>(parts.size()) && part.index < part.count, "[checkpoint] shard ", part.index,
            " of ", part.count, " among ", parts.size(), " parts; expected one part for each shard");
    ShardRecord& shard = manifest.shards[part.index];
    require(shard.file.empty(), "[checkpoint] shard ", part.index, " is given twice: ", shard.file, " and ",
            part.shard.file, "; expected one part for each shard");
    shard = std::move(part.shard);
    for (TensorRecord& t : part.tensors) {
      const auto [at, inserted] = merged.try_emplace({t.name, t.kind}, t);
      if (inserted) continue;
      TensorRecord& known = at->second;
      require(known.dtype == t.dtype && known.shape == t.shape, "[checkpoint] ", name_of(t.kind), " '", t.name, "' is ",
              known.dtype, " ", known.shape, " on one rank and ", t.dtype, " ", t.shape,
              " on another rank; expected the same dtype and shape on all ranks");
      std::ranges::move(t.pieces, std::back_inserter(known.pieces));
    }
  }
  for (auto& [key, tensor] : merged) {
    require_tiling(tensor);
    manifest.tensors.push_back(std::move(tensor));
    if (manifest.tensors.size() % tensors_per_report == 0) work.moved(manifest_name);
  }
  return manifest;
}

}  // namespace hexad::io
