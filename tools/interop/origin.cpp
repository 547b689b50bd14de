#include "tools/interop/origin.h"

#include <filesystem>

#include "framework/data/file.h"
#include "framework/io/json.h"
#include "tools/interop/source_folder.h"
#include "tools/interop/text_part.h"

namespace hexad::interop {

using namespace base;

namespace {

constexpr const char* format_name = "hexad-origin";
constexpr int64_t max_origin_bytes = int64_t{256} << 20;

Element read_element(const io::JsonNode& node) {
  const std::optional<Element> element = element_of(node.text());
  node.check(element.has_value(), "F32, BF16 or F16");
  return *element;
}

}  // namespace

std::string origin_json(const Origin& origin) {
  require(origin.element.has_value(),
          "[interop] the element type of the origin is not set; expected the type of most tensors");
  io::Json exceptions = io::Json::object();
  for (const auto& [name, element] : origin.exceptions) exceptions[name] = stored(element).name;
  io::Json files = io::Json::object();
  for (const auto& [name, stamp] : origin.files)
    files[name] = {{"bytes", stamp.bytes}, {"changed_nanoseconds", stamp.changed}};
  const io::Json document{{"format", format_name},
                          {"version", 1},
                          {"experts", origin.experts == ExpertLayout::fused ? "fused" : "separate"},
                          {"dtype", stored(*origin.element).name},
                          {"other_dtypes", exceptions},
                          {"files", files}};
  return document.dump(1) + "\n";
}

bool has_config(const std::string& folder) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder + "/config.json", error);
}

Origin read_origin(const std::string& folder) {
  Origin origin;
  origin.folder = folder;
  const std::string config_path = checked_path(folder, "config.json");
  origin.config = text_part(data::read_file(config_path, max_config_bytes), config_path);
  std::error_code error;
  if (!std::filesystem::exists(folder + "/origin.json", error)) return origin;
  const std::string path = checked_path(folder, "origin.json");
  const io::Json document = io::parse_json(data::read_file(path, max_origin_bytes), path);
  const io::JsonNode root(document, path);
  root["format"].check(root["format"].value() == format_name, cat("\"", format_name, "\""));
  root["version"].integer(1, 1);
  const std::string& experts = root["experts"].text();
  root["experts"].check(experts == "fused" || experts == "separate", "fused or separate");
  if (experts == "fused") origin.experts = ExpertLayout::fused;
  origin.element = read_element(root["dtype"]);
  root["other_dtypes"].members(
      [&](const std::string& name, const io::JsonNode& node) { origin.exceptions[name] = read_element(node); });
  if (!document.contains("files")) return origin;
  root["files"].members([&](const std::string& name, const io::JsonNode& node) {
    origin.files[name] = {node["bytes"].integer(), node["changed_nanoseconds"].integer(INT64_MIN)};
  });
  return origin;
}

}  // namespace hexad::interop
