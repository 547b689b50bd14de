#include "framework/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <utility>

#include "framework/io/json.h"

namespace hexad::io {

using namespace base;

namespace {

constexpr std::array<std::pair<Dtype, std::string_view>, 6> dtype_names{{{Dtype::f32, "F32"},
                                                                         {Dtype::bf16, "BF16"},
                                                                         {Dtype::f64, "F64"},
                                                                         {Dtype::i32, "I32"},
                                                                         {Dtype::i64, "I64"},
                                                                         {Dtype::u8, "U8"}}};

/// Returns the dtypes of this program with the sizes of their elements.
std::vector<StoredDtype> own_dtypes() {
  std::vector<StoredDtype> all;
  for (const auto& [dtype, name] : dtype_names) all.push_back({name, size_of(dtype)});
  return all;
}

StoredDtype read_dtype(const JsonNode& node, std::span<const StoredDtype> dtypes) {
  const std::string& name = node.text();
  const auto found = std::ranges::find(dtypes, name, &StoredDtype::name);
  if (found == dtypes.end()) {
    std::string list;
    for (const StoredDtype& dtype : dtypes) list += cat(list.empty() ? "" : ", ", dtype.name);
    node.check(false, cat("one of ", list));
  }
  return *found;
}

HeaderEntry read_tensor(const std::string& name, const JsonNode& node, int64_t data_begin, int64_t data_bytes,
                        std::span<const StoredDtype> dtypes) {
  HeaderEntry entry{name, read_dtype(node["dtype"], dtypes), node["shape"].shape(), 0, 0};
  const JsonNode offsets = node["data_offsets"];
  std::vector<int64_t> range;
  offsets.each([&](const JsonNode& offset) { range.push_back(offset.integer(0, data_bytes)); });
  offsets.check(range.size() == 2, "two offsets, begin and end");
  if (range[0] > range[1])
    offsets.check(false, cat("two offsets in ascending order, not ", range[0], " and ", range[1]));
  const auto bytes = checked_bytes(entry.shape, entry.dtype.bytes);
  node["shape"].check(bytes.has_value(), "sizes of a tensor of less than 2^63 bytes; a size of 0 counts as 1");
  if (*bytes != range[1] - range[0]) {
    offsets.check(false, cat("a range of ", *bytes, " bytes for ", entry.dtype.name, " ", entry.shape, ", not ",
                             range[1] - range[0]));
  }
  entry.begin = data_begin + range[0];
  entry.end = data_begin + range[1];
  return entry;
}

}  // namespace

std::string_view safetensors_name_of(Dtype dtype) {
  return std::ranges::find(dtype_names, dtype, &std::pair<Dtype, std::string_view>::first)->second;
}

HeaderEntries parse_entries(std::string_view text, int64_t file_bytes, std::span<const StoredDtype> dtypes,
                            const std::string& path) {
  const int64_t data_begin = length_bytes + static_cast<int64_t>(text.size());
  const int64_t data_bytes = file_bytes - data_begin;
  HeaderEntries header;
  const Json document = parse_json(text, path + ": header");
  JsonNode(document, path + ": header").members([&](const std::string& name, const JsonNode& node) {
    if (name == "__metadata__") {
      node.members([&](const std::string& key, const JsonNode& value) { header.metadata[key] = value.text(); });
    } else {
      header.tensors.push_back(read_tensor(name, node, data_begin, data_bytes, dtypes));
    }
  });
  // A tensor without elements has the same offset as the next tensor, and must precede the next tensor.
  std::ranges::sort(header.tensors, {}, [](const HeaderEntry& t) { return std::pair(t.begin, t.end); });
  int64_t expected = data_begin;
  for (const HeaderEntry& t : header.tensors) {
    if (t.begin != expected) {
      fail(ExitCode::data, path, ": tensor '", t.name, "' begins at byte ", t.begin,
           t.begin < expected ? ", before" : ", after", " the end of the ",
           &t == &header.tensors.front() ? "header" : "previous tensor", " (byte ", expected,
           "); expected tensors without gaps or overlap");
    }
    expected = t.end;
  }
  if (expected != file_bytes) {
    fail(ExitCode::data, path, ": the ", header.tensors.empty() ? "header" : "last tensor", " ends at byte ", expected,
         ", but the file has ", file_bytes, " bytes; expected no bytes after the last tensor");
  }
  return header;
}

SafetensorsHeader parse_header(std::string_view text, int64_t file_bytes, const std::string& path) {
  HeaderEntries entries = parse_entries(text, file_bytes, own_dtypes(), path);
  SafetensorsHeader header{{}, std::move(entries.metadata)};
  for (HeaderEntry& t : entries.tensors) {
    const auto known = std::ranges::find(dtype_names, t.dtype.name, &std::pair<Dtype, std::string_view>::second);
    header.tensors.push_back({std::move(t.name), known->first, t.shape, t.begin, t.end});
  }
  return header;
}

std::string make_header(std::span<const TensorInfo> tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<HeaderEntry> entries;
  for (const TensorInfo& t : tensors)
    entries.push_back({t.name, {safetensors_name_of(t.dtype), size_of(t.dtype)}, t.shape, t.begin, t.end});
  return make_header(entries, metadata);
}

std::string make_header(std::span<const HeaderEntry> tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  const int64_t origin = tensors.empty() ? 0 : tensors.front().begin;
  for (const HeaderEntry& t : tensors) {
    require(t.name != "__metadata__", "[safetensors] a tensor has the name '", t.name,
            "', which the format reserves; expected another name");
    require(!header.contains(t.name), "[safetensors] two tensors have the name '", t.name,
            "'; expected distinct names");
    header[t.name] = {{"dtype", t.dtype.name},
                      {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                      {"data_offsets", {t.begin - origin, t.end - origin}}};
  }
  std::string text = header.dump();
  // Pads the header with spaces, as the format permits. The data are then aligned for readers that map the file.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void require_readable_header(std::string_view header, int64_t data_bytes, const std::string& path) {
  const auto bytes = static_cast<int64_t>(header.size());
  if (bytes > max_header_bytes)
    fail(ExitCode::resource, path, ": would have a header of ", bytes, " bytes, expected at most ", max_header_bytes);
  try {
    parse_header(header, length_bytes + bytes + data_bytes, path);
  } catch (const Error& error) {
    fail(ExitCode::resource, error.what(), "; this file was not written, because no reader would accept it");
  }
}

}  // namespace hexad::io
