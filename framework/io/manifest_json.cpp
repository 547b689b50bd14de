#include <algorithm>
#include <array>

#include "framework/base/ordinal.h"
#include "framework/data/digest.h"
#include "framework/io/json.h"
#include "framework/io/manifest.h"
#include "framework/io/manifest_json.h"

namespace hexad::io {

using namespace base;

namespace {

constexpr std::string_view format_name = "hexad-checkpoint";
constexpr std::array<std::string_view, 5> kind_names{"parameter", "main", "moment1", "moment2", "state"};

Json sizes(const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); }

/// Returns the index of a name in the list of legal names `names`. Throws Error(data) if the name is not legal.
size_t choice(const JsonNode& node, std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, node.text());
  if (found == names.end()) {
    std::string list;
    for (std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
    node.check(false, "one of " + list);
  }
  return found - names.begin();
}

Dtype read_tensor_dtype(const JsonNode& node) {
  constexpr std::array<std::string_view, 6> names{"f32", "bf16", "f64", "i32", "i64", "u8"};
  return dtype_from_name(names[choice(node, names)]);
}

std::string read_digest(const JsonNode& node) {
  const std::string& text = node.text();
  node.check(text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos,
             "a digest of 32 hexadecimal digits");
  return text;
}

/// Returns a file name. Throws Error(data) if the name could refer to another folder.
std::string read_file_name(const JsonNode& node) {
  constexpr std::string_view legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  const std::string& name = node.text();
  node.check(!name.empty() && name.front() != '.' && name.find_first_not_of(legal) == std::string::npos,
             "a file name of letters, digits, '-', '_' and '.' that does not begin with '.'");
  return name;
}

}  // namespace

std::string_view name_of(Kind kind) { return kind_names[base::ordinal(kind)]; }

Json to_json(const ShardRecord& shard) {
  return {{"file", shard.file}, {"bytes", shard.bytes}, {"digest", shard.digest}};
}

ShardRecord shard_from(const JsonNode& node) {
  return {read_file_name(node["file"]), node["bytes"].integer(), read_digest(node["digest"])};
}

Json to_json(const TensorRecord& tensor) {
  Json pieces = Json::array();
  for (const Piece& p : tensor.pieces) {
    pieces.push_back({{"shard", p.shard},
                      {"stored", p.stored},
                      {"begin", sizes(p.region.begin)},
                      {"size", sizes(p.region.size)},
                      {"digest", p.digest}});
  }
  return {{"name", tensor.name},
          {"kind", name_of(tensor.kind)},
          {"dtype", name_of(tensor.dtype)},
          {"shape", sizes(tensor.shape)},
          {"pieces", std::move(pieces)}};
}

Json to_json(const ManifestPage& page) {
  Json json = to_json(page.file);
  json["name"] = page.name;
  json["kind"] = name_of(page.kind);
  return json;
}

TensorRecord tensor_from(const JsonNode& node, size_t shards) {
  TensorRecord tensor{node["name"].text(),
                      static_cast<Kind>(choice(node["kind"], kind_names)),
                      read_tensor_dtype(node["dtype"]),
                      node["shape"].shape(),
                      {}};
  node["shape"].check(checked_bytes(tensor.shape, tensor.dtype).has_value(),
                      "sizes of a tensor of less than 2^63 bytes; a size of 0 counts as 1");
  node["pieces"].each([&](const JsonNode& piece) {
    Piece p{static_cast<size_t>(piece["shard"].integer(0, static_cast<int64_t>(shards) - 1)),
            piece["stored"].text(),
            {piece["begin"].shape(), piece["size"].shape()},
            read_digest(piece["digest"])};
    piece.check(inside(p.region, tensor.shape), cat("a region inside ", tensor.shape, ", not ", to_string(p.region)));
    tensor.pieces.push_back(std::move(p));
  });
  return tensor;
}

TensorRecord whole_tensor_from(const JsonNode& node, size_t shards) {
  TensorRecord tensor = tensor_from(node, shards);
  int64_t elements = 0;
  bool fits = true;  // false if the sum overflows, for example in a malicious file
  for (const Piece& p : tensor.pieces)
    fits = fits && !__builtin_add_overflow(elements, p.region.size.numel(), &elements);
  if (!fits || elements != tensor.shape.numel())
    node.check(false, cat("pieces that add up to the ", tensor.shape.numel(), " elements of '", tensor.name, "'"));
  return tensor;
}

std::string manifest_to_json(const Manifest& manifest) {
  const RunState& run = manifest.run;
  const auto carried = [](const std::string& text, const char* what) {
    return parse_json(text, cat("[checkpoint] ", what));
  };
  Json content{{"sequence", manifest.sequence},
               {"generation", manifest.generation},
               {"step", run.step},
               {"tokens", run.tokens},
               {"seed", run.seed},
               {"recipe", run.recipe},
               {"data_position", carried(run.data_position, "data position")},
               {"random_state", carried(run.random_state, "random state")},
               {"auto_choices", nullptr},  // has no meaning, but older programs require this member
               {"layout", carried(run.layout, "layout")},
               {"shards", Json::array()}};
  for (const ShardRecord& shard : manifest.shards) content["shards"].push_back(to_json(shard));
  Json& list = content[manifest.pages.empty() ? "tensors" : "pages"] = Json::array();
  for (const TensorRecord& tensor : manifest.tensors) list.push_back(to_json(tensor));
  for (const ManifestPage& page : manifest.pages) list.push_back(to_json(page));
  // The digest covers the compact text of the content. A reader can compute the digest again from the parsed content.
  const std::string digest = data::digest_of(content.dump()).to_string();
  const Json document{{"format", format_name},
                      {"version", manifest.pages.empty() ? 1 : manifest_version},
                      {"digest", digest},
                      {"content", std::move(content)}};
  return document.dump(1) + "\n";
}

Manifest manifest_from_json(std::string_view text, const std::string& where) {
  const Json document = parse_json(text, where);
  const JsonNode root(document, where);
  root["format"].check(root["format"].value() == format_name, cat("\"", format_name, "\""));
  const int64_t version = root["version"].integer(1);
  if (version > manifest_version) {
    fail(ExitCode::data, where, ": has version ", version,
         ", written by a newer program; this program reads versions up to ", manifest_version);
  }
  const JsonNode content = root["content"];
  const std::string digest = data::digest_of(content.value().dump()).to_string();
  if (digest != read_digest(root["digest"])) {
    fail(ExitCode::data, where, ": is damaged: its content has digest ", digest, ", expected ", root["digest"].text());
  }
  Manifest manifest;
  manifest.sequence = content["sequence"].integer(1);
  if (content.value().contains("generation")) manifest.generation = content["generation"].integer();
  manifest.run = {content["step"].integer(),
                  content["tokens"].integer(),
                  content["seed"].unsigned_integer(),
                  content["recipe"].text(),
                  content["data_position"].value().dump(),
                  content["random_state"].value().dump(),
                  content["layout"].value().dump()};
  content["shards"].each([&](const JsonNode& node) { manifest.shards.push_back(shard_from(node)); });
  if (version == 1) {
    content["tensors"].each(
        [&](const JsonNode& node) { manifest.tensors.push_back(whole_tensor_from(node, manifest.shards.size())); });
    return manifest;
  }
  content["pages"].each([&](const JsonNode& node) {
    ManifestPage page{shard_from(node), node["name"].text(), static_cast<Kind>(choice(node["kind"], kind_names))};
    const auto key = [](const ManifestPage& p) { return std::pair(p.name, p.kind); };
    node.check(manifest.pages.empty() || key(manifest.pages.back()) < key(page),
               "a page that begins after the previous page");
    manifest.pages.push_back(std::move(page));
  });
  return manifest;
}

void require_accepted_size(std::string_view text, const std::string& where, int64_t limit) {
  if (static_cast<int64_t>(text.size()) > limit)
    fail(ExitCode::resource, where, ": would have ", text.size(), " bytes, expected at most ", limit,
         "; use fewer ranks or a lower parallel.zero, which cut weights into fewer pieces");
}

void require_readable(std::string_view text, const std::string& where, int64_t limit) {
  require_accepted_size(text, where, limit);
  try {
    manifest_from_json(text, where);
  } catch (const Error& error) {
    fail(ExitCode::resource, error.what(), "; this file was not written, because no reader would accept it");
  }
}

}  // namespace hexad::io
