#include "framework/data/tokenizers/tokenizer_source.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/path_problem.h"
#include "framework/data/tokenizers/base64.h"

namespace hexad::data {

using namespace base;
namespace {

namespace fs = std::filesystem;

bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const size_t space = line.find(' ');
  if (space == line.npos || space == 0 || line.size() < space + 2) return false;
  return from_base64(line.substr(0, space)) && line.find_first_not_of("0123456789\r", space + 1) == line.npos;
}

bool ends_as_tokenizer(const fs::path& path) { return path.extension() == ".tiktoken" || path.extension() == ".model"; }

}  // namespace

std::string kind_of_source(std::string_view bytes) {
  const size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin != bytes.npos && bytes[begin] == '{') {
    const nlohmann::json json = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return "";
    if (json.contains("model")) return "huggingface";
    return json.contains("config") && json.contains("vocab") ? "tekken" : "";
  }
  if (is_tiktoken(bytes)) return "tiktoken";
  // A SentencePiece model is a protocol buffer. The buffer begins with the tag of the first piece (field 1, with a
  // length). This tag is '\n'.
  return bytes.starts_with('\n') ? "sentencepiece" : "";
}

std::unique_ptr<Tokenizer> make_from_source(TokenizerRequest request) {
  const std::string kind = request.source.kind;
  if (kind != "tiktoken" && !request.choice.pattern.empty())
    fail(ExitCode::usage, request.path, ": is of kind ", kind, ", but --tokenizer-pattern ('", request.choice.pattern,
         "') is only for .tiktoken files; remove this option");
  if (kind == "huggingface") return make_hugging_face(std::move(request));
  if (kind == "tiktoken") return make_tiktoken(std::move(request));
  if (kind == "tekken") return make_tekken(std::move(request));
  require(kind == "sentencepiece", "[tokenizer] kind is ", kind,
          "; expected huggingface, tiktoken, tekken or sentencepiece");
  return make_sentence_piece(std::move(request));
}

std::string tokenizer_file_in(const std::string& folder) {
  if (const std::string problem = folder_problem(folder); !problem.empty()) fail(ExitCode::data, folder, ": ", problem);
  for (const char* name : {"tokenizer.json", "tekken.json", "tokenizer.model", "qwen.tiktoken"}) {
    const std::string path = (fs::path(folder) / name).string();
    if (file_problem(path) != "no such file") return path;
  }
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (ends_as_tokenizer(entry.path())) found.push_back(entry.path().string());
  std::ranges::sort(found);
  if (found.empty())
    fail(ExitCode::data, folder,
         ": has no tokenizer, expected tokenizer.json, tekken.json, tokenizer.model, *.tiktoken or *.model");
  if (found.size() > 1)
    fail(ExitCode::data, folder, ": has ", found.size(), " tokenizers, including ", found[0], " and ", found[1],
         ", expected one; give the path of the wanted file instead of the folder");
  return found.front();
}

}  // namespace hexad::data
