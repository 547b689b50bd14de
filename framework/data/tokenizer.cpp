#include "framework/data/tokenizer.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "framework/base/error.h"
#include "framework/base/path_problem.h"
#include "framework/data/bpe_tokenizer.h"
#include "framework/data/file.h"
#include "framework/data/tokenizers/tokenizer_source.h"
#include "framework/data/unfinished_dataset.h"

namespace hexad::data {
using namespace base;
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }
  int32_t vocab_size() const override { return 258; }
  std::string_view bytes_of(int32_t id) const override {
    check_id(id);
    return id < text_ids() ? std::string_view(&bytes_[id], 1) : std::string_view();
  }
  TokenizerContents contents() const override { return {"bytes", {}}; }

 private:
  std::array<char, 256> bytes_;
};

}  // namespace

std::string_view Tokenizer::special_text(int32_t id) const {
  check_id(id);
  return {};
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const { return decode_after("", ids); }

std::string Tokenizer::decode_after(std::string_view before, std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) text += bytes_of(id);
  if (before.empty()) remove_prefix(text);
  return text;
}

std::string Tokenizer::decode_with_special(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) text += bytes_of(id), text += special_text(id);
  remove_prefix(text);
  return text;
}

void Tokenizer::check_id(int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    fail(ExitCode::data, "token id ", id, " is not in the tokenizer's vocabulary, expected 0 to ", vocab_size() - 1);
  }
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path, const TokenizerChoice& choice) {
  const std::string problem = file_problem(path);
  if (problem == "no such file") {
    std::error_code error;  // an error means that there is no such folder
    const bool unfinished =
        std::filesystem::is_directory(std::filesystem::path(path).parent_path() / unfinished_folder_name, error);
    fail(
        ExitCode::data, path, ": there is no such file; ",
        unfinished
            ? "if `hexad prepare` is still running, wait until it ends; if it was interrupted, start it again with the "
              "same options"
            : "to write a tokenizer into the dataset's folder, run `hexad prepare`");
  }
  if (problem == "is a directory") return load_tokenizer(tokenizer_file_in(path), choice);
  std::string bytes = read_file(path, largest_tokenizer_file);
  if (!is_tokenizer_file(bytes)) {
    if (std::ssize(bytes) > largest_source)
      fail(ExitCode::data, path, ": has ", bytes.size(), " bytes, expected a tokenizer of at most ", largest_source,
           " bytes");
    TokenizerRequest request;
    request.path = path;
    request.choice = choice;
    request.source.kind = kind_of_source(bytes);
    request.source.bytes = std::move(bytes);
    if (!request.source.kind.empty()) return make_from_source(std::move(request));
  }
  TokenizerContents contents = read_tokenizer_file(path);
  if (!choice.end_of_document.empty() || !choice.pattern.empty())
    fail(ExitCode::usage, path,
         ": is a tokenizer of `hexad prepare`, whose end of document and pattern are fixed; remove --end-of-document "
         "and --tokenizer-pattern");
  if (contents.kind == "bytes") return make_byte_tokenizer();
  if (contents.source) {
    TokenizerRequest request;
    request.path = path;
    request.source = *contents.source;
    return make_from_source(std::move(request));
  }
  return make_bpe_tokenizer(std::move(contents.merges));
}

std::vector<int32_t> bytes_per_id(const Tokenizer& tokenizer) {
  std::vector<int32_t> bytes(tokenizer.vocab_size());
  for (size_t id = 0; id < bytes.size(); ++id) {
    bytes[id] = static_cast<int32_t>(tokenizer.bytes_of(static_cast<int32_t>(id)).size());
  }
  return bytes;
}

}  // namespace hexad::data
