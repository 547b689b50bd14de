#include "framework/data/tokenizer_file.h"

#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/data/file.h"

namespace hexad::data {

using namespace base;
namespace {

using Json = nlohmann::json;

constexpr std::string_view format_name = "hexad-tokenizer";
constexpr int64_t format_version = 1;
constexpr int64_t largest_file = int64_t{64} << 20;  // enough for a million merges; a larger file is not a tokenizer

Json body_of(const TokenizerContents& contents) {
  Json merges = Json::array();
  for (const Merge& m : contents.merges) merges.push_back({m.left, m.right});
  return {{"format", format_name}, {"version", format_version}, {"kind", contents.kind}, {"merges", merges}};
}

// Parses a tokenizer file. The digest is checked last, because a file of another kind or version must not be reported
// as damaged.
struct Reader {
  const std::string& path;
  const Json& json;

  const Json& at(const char* key) const {
    if (!json.is_object() || !json.contains(key)) fail(ExitCode::data, path, ": damaged tokenizer: no '", key, "'");
    return json.at(key);
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) fail(ExitCode::data, path, ": damaged tokenizer: '", key, "' is not a string");
    return at(key).get<std::string>();
  }
  std::vector<Merge> merges() const {
    const Json& list = at("merges");
    if (!list.is_array()) fail(ExitCode::data, path, ": damaged tokenizer: 'merges' is not a list");
    std::vector<Merge> merges;
    for (const Json& pair : list) {
      const int64_t next = 256 + static_cast<int64_t>(merges.size());
      const auto is_id = [&](const Json& id) { return id.is_number_unsigned() && id.get<uint64_t>() < uint64_t(next); };
      if (!pair.is_array() || pair.size() != 2 || !is_id(pair[0]) || !is_id(pair[1])) {
        fail(ExitCode::data, path, ": damaged tokenizer: merge ", merges.size(), " is not a pair of ids below ", next);
      }
      merges.push_back({pair[0].get<int32_t>(), pair[1].get<int32_t>()});
    }
    return merges;
  }
};

}  // namespace

Digest TokenizerContents::digest() const { return digest_of(body_of(*this).dump()); }

void write_tokenizer_file(const std::string& path, const TokenizerContents& contents) {
  Json file = body_of(contents);
  file["digest"] = contents.digest().to_string();
  write_file(path, file.dump() + "\n");
}

TokenizerContents read_tokenizer_file(const std::string& path) {
  const std::string text = read_file(path, largest_file);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) fail(ExitCode::data, path, ": damaged tokenizer: not JSON");
  const Reader reader{path, json};
  if (const std::string format = reader.text("format"); format != format_name) {
    fail(ExitCode::data, path, ": format is '", format, "', expected '", format_name, "'");
  }
  if (const Json& version = reader.at("version"); version != format_version) {
    // dump() is recursive, so it must not be called for arrays or objects of an untrusted file.
    fail(ExitCode::data, path, ": version is ", version.is_number() ? version.dump() : "not a number", ", expected ",
         format_version);
  }
  const TokenizerContents contents{reader.text("kind"), reader.merges()};
  if (contents.kind != "bytes" && contents.kind != "bpe") {
    fail(ExitCode::data, path, ": kind is '", contents.kind, "', expected 'bytes' or 'bpe'");
  }
  if (contents.kind == "bytes" && !contents.merges.empty()) {
    fail(ExitCode::data, path, ": damaged tokenizer: a byte tokenizer has ", contents.merges.size(), " merges");
  }
  if (const std::string digest = reader.text("digest"); digest != contents.digest().to_string()) {
    fail(ExitCode::data, path, ": damaged tokenizer: its digest is ", digest, " but its contents have ",
         contents.digest());
  }
  return contents;
}

}  // namespace hexad::data
