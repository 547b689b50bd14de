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

Dtype read_dtype(const JsonNode& node) {
  const std::string& name = node.text();
  const auto found = std::ranges::find(dtype_names, name, &std::pair<Dtype, std::string_view>::second);
  node.check(found != dtype_names.end(), "one of F32, BF16, F64, I32, I64, U8");
  return found->first;
}

TensorInfo read_tensor(const std::string& name, const JsonNode& node, int64_t data_begin, int64_t data_bytes) {
  TensorInfo info{name, read_dtype(node["dtype"]), node["shape"].shape(), 0, 0};
  const JsonNode offsets = node["data_offsets"];
  std::vector<int64_t> range;
  offsets.each([&](const JsonNode& offset) { range.push_back(offset.integer(0, data_bytes)); });
  offsets.check(range.size() == 2 && range[0] <= range[1], "two offsets, begin and end");
  const auto bytes = checked_bytes(info.shape, info.dtype);
  node["shape"].check(bytes.has_value(), "sizes whose product fits in 63 bits");
  if (*bytes != range[1] - range[0]) {
    offsets.check(
        false, cat("a range of ", *bytes, " bytes for ", info.dtype, " ", info.shape, ", not ", range[1] - range[0]));
  }
  info.begin = data_begin + range[0];
  info.end = data_begin + range[1];
  return info;
}

}  // namespace

std::string_view safetensors_name_of(Dtype dtype) {
  return std::ranges::find(dtype_names, dtype, &std::pair<Dtype, std::string_view>::first)->second;
}

SafetensorsHeader parse_header(std::string_view text, int64_t file_bytes, const std::string& path) {
  const int64_t data_begin = length_bytes + static_cast<int64_t>(text.size());
  const int64_t data_bytes = file_bytes - data_begin;
  SafetensorsHeader header;
  const Json document = parse_json(text, path + ": header");
  JsonNode(document, path + ": header").members([&](const std::string& name, const JsonNode& node) {
    if (name == "__metadata__") {
      node.members([&](const std::string& key, const JsonNode& value) { header.metadata[key] = value.text(); });
    } else {
      header.tensors.push_back(read_tensor(name, node, data_begin, data_bytes));
    }
  });
  // A tensor without elements has the same offset as the next tensor and must come before it.
  std::ranges::sort(header.tensors, {}, [](const TensorInfo& t) { return std::pair(t.begin, t.end); });
  int64_t expected = data_begin;
  for (const TensorInfo& t : header.tensors) {
    if (t.begin != expected) {
      fail(ExitCode::data, path, ": tensor '", t.name, "' begins at byte ", t.begin,
           t.begin < expected ? ", inside" : ", beyond", " the end of the previous tensor (", expected,
           "); expected tensors without gaps or overlap");
    }
    expected = t.end;
  }
  if (expected != file_bytes) {
    fail(ExitCode::data, path, ": ", file_bytes - expected, " bytes follow the last tensor, which ends at byte ",
         expected);
  }
  return header;
}

std::string make_header(std::span<const TensorInfo> tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  const int64_t origin = tensors.empty() ? 0 : tensors.front().begin;
  for (const TensorInfo& t : tensors) {
    require(!header.contains(t.name) && t.name != "__metadata__", "[safetensors] two tensors of the name '", t.name,
            "'");
    header[t.name] = {{"dtype", safetensors_name_of(t.dtype)},
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
    fail(ExitCode::resource, error.what(), "; not written, because no reader would accept it");
  }
}

}  // namespace hexad::io
