#include "framework/data/tokenizer_file.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/json_kind.h"
#include "framework/data/file.h"
#include "framework/data/tokenizers/base64.h"

namespace hexad::data {

using namespace base;
namespace {

using Json = nlohmann::json;

constexpr std::string_view format_name = "hexad-tokenizer";
constexpr int64_t format_version = 1;
constexpr std::array<std::string_view, 4> source_kinds{"huggingface", "sentencepiece", "tekken", "tiktoken"};

// Returns the JSON of a source. `contents` is the value of `key`: the bytes of the source in base64, or the digest of
// these bytes.
Json source_json(const TokenizerSource& source, const char* key, const std::string& contents) {
  return {{key, contents},
          {"pattern", source.pattern},
          {"end_of_document", source.end_of_document},
          {"beginning_of_document", source.beginning_of_document}};
}

// Returns the JSON of the tokenizer file without the digest. Adds the argument `source` as the member `source` if the
// argument is not null.
Json body_of(const TokenizerContents& contents, Json source) {
  Json merges = Json::array();
  for (const Merge& m : contents.merges) merges.push_back({m.left, m.right});
  Json body = {{"format", format_name}, {"version", format_version}, {"kind", contents.kind}, {"merges", merges}};
  if (!source.is_null()) body["source"] = std::move(source);
  return body;
}

// Parses a tokenizer file. The digest is checked last, because a file of another kind or version must not be reported
// as damaged.
struct Reader {
  const std::string& path;
  const Json& json;

  const Json& at(const char* key) const {
    if (!json.is_object() || !json.contains(key))
      fail(ExitCode::data, path, ": damaged tokenizer: no '", key, "', expected an object with this key");
    return json.at(key);
  }
  std::string text(const char* key) const {
    if (!at(key).is_string())
      fail(ExitCode::data, path, ": damaged tokenizer: '", key, "' is ", base::json_kind(at(key)),
           ", expected a string");
    return at(key).get<std::string>();
  }
  std::vector<Merge> merges() const {
    const Json& list = at("merges");
    if (!list.is_array())
      fail(ExitCode::data, path, ": damaged tokenizer: 'merges' is ", base::json_kind(list), ", expected a list");
    std::vector<Merge> merges;
    for (const Json& pair : list) {
      const int64_t next = 256 + static_cast<int64_t>(merges.size());
      const auto is_id = [&](const Json& id) { return id.is_number_unsigned() && id.get<uint64_t>() < uint64_t(next); };
      if (!pair.is_array() || pair.size() != 2 || !is_id(pair[0]) || !is_id(pair[1])) {
        const std::string found =
            !pair.is_array()   ? base::json_kind(pair)
            : pair.size() != 2 ? cat("a list of ", base::counted(std::ssize(pair), "element"))
                               : cat("[", base::number_or_kind(pair[0]), ", ", base::number_or_kind(pair[1]), "]");
        fail(ExitCode::data, path, ": damaged tokenizer: merge ", merges.size(), " is ", found,
             ", expected a pair of ids from 0 to ", next - 1);
      }
      merges.push_back({pair[0].get<int32_t>(), pair[1].get<int32_t>()});
    }
    return merges;
  }
  std::shared_ptr<const TokenizerSource> source(const std::string& kind) const {
    const Reader in{path, at("source")};
    const auto id = [&](const char* key) {
      const Json& value = in.at(key);
      if (!value.is_number_integer() || value.get<int64_t>() < -1 || value.get<int64_t>() > INT32_MAX)
        fail(ExitCode::data, path, ": damaged tokenizer: 'source.", key, "' is ", base::number_or_kind(value),
             ", expected an id (a whole number from 0 to 2^31 - 1), or -1 for none");
      return value.get<int32_t>();
    };
    auto bytes = from_base64(in.text("base64"));
    if (!bytes) fail(ExitCode::data, path, ": damaged tokenizer: 'source.base64' cannot be decoded, expected base64");
    TokenizerSource source{kind, std::move(*bytes), in.text("pattern"), id("end_of_document"),
                           id("beginning_of_document")};
    if (source.end_of_document < 0)
      fail(ExitCode::data, path, ": damaged tokenizer: 'source.end_of_document' is ", source.end_of_document,
           ", expected at least 0");
    return std::make_shared<const TokenizerSource>(std::move(source));
  }
};

}  // namespace

Digest TokenizerContents::digest() const {
  // Uses the digest of the source's bytes in place of the bytes, because base64 of a large file takes time.
  const Json json = source ? source_json(*source, "digest", digest_of(source->bytes).to_string()) : Json();
  return digest_of(body_of(*this, json).dump());
}

void write_tokenizer_file(const std::string& path, const TokenizerContents& contents) {
  const auto& source = contents.source;
  Json file = body_of(contents, source ? source_json(*source, "base64", to_base64(source->bytes)) : Json());
  file["digest"] = contents.digest().to_string();
  write_file(path, file.dump() + "\n");
}

bool is_tokenizer_file(std::string_view contents) {
  constexpr size_t before_merges = 4096;  // keys are sorted, so the format comes before the merges and the source
  return contents.substr(0, before_merges).find(cat('"', format_name, '"')) != contents.npos;
}

TokenizerContents read_tokenizer_file(const std::string& path) {
  const std::string text = read_file(path, largest_tokenizer_file);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) fail(ExitCode::data, path, ": damaged tokenizer: not JSON, expected a JSON object");
  if (!json.is_object() || !json.contains("format"))
    fail(
        ExitCode::data, path, ": damaged tokenizer: no 'format', ",
        "expected a JSON object with \"format\" (a tokenizer of `hexad prepare`), \"model\" (tokenizer.json of Hugging "
        "Face), or \"config\" and \"vocab\" (tekken.json)");
  const Reader reader{path, json};
  if (const std::string format = reader.text("format"); format != format_name) {
    fail(ExitCode::data, path, ": format is '", format, "', expected '", format_name, "'");
  }
  if (const Json& version = reader.at("version"); version != format_version) {
    // dump() is recursive, so it must not be called for arrays or objects of an untrusted file.
    fail(ExitCode::data, path, ": version is ", base::number_or_kind(version), ", expected ", format_version,
         "; create the tokenizer again with `hexad prepare`, or use the version of hexad that wrote it");
  }
  TokenizerContents contents{reader.text("kind"), reader.merges()};
  const bool has_source = std::ranges::find(source_kinds, contents.kind) != source_kinds.end();
  if (contents.kind != "bytes" && contents.kind != "bpe" && !has_source) {
    fail(ExitCode::data, path, ": kind is '", contents.kind,
         "', expected 'bytes', 'bpe', 'huggingface', 'sentencepiece', 'tekken' or 'tiktoken'");
  }
  if (contents.kind == "bytes" && !contents.merges.empty()) {
    fail(ExitCode::data, path, ": damaged tokenizer: a byte tokenizer has ",
         base::counted(std::ssize(contents.merges), "merge"), ", expected none");
  }
  if (has_source) contents.source = reader.source(contents.kind);
  if (const std::string digest = reader.text("digest"); digest != contents.digest().to_string()) {
    fail(ExitCode::data, path, ": damaged tokenizer: its digest is ", digest, ", expected ", contents.digest(),
         ", the digest of its contents");
  }
  return contents;
}

}  // namespace hexad::data
