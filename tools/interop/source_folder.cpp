#include "tools/interop/source_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "framework/base/path_problem.h"
#include "framework/config/nearest_path.h"
#include "framework/config/words.h"
#include "framework/io/json.h"

namespace hexad::interop {

using namespace base;

namespace fs = std::filesystem;

namespace {

constexpr const char* index_name = "model.safetensors.index.json";
constexpr const char* single_name = "model.safetensors";
constexpr const char* templates_name = "additional_chat_templates";

// Dtypes of the safetensors format, so that messages can name the dtype of a tensor that is not accepted.
constexpr io::StoredDtype known_dtypes[] = {
    {"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"I64", 8},
    {"I32", 4}, {"I16", 2},  {"I8", 1},  {"U64", 8}, {"U32", 4},     {"U16", 2},     {"U8", 1},      {"BOOL", 1}};

std::vector<std::string> files_of(const std::string& folder) {
  if (const std::string problem = folder_problem(folder); !problem.empty())
    fail(ExitCode::data, folder, ": ", problem, problem == "no such folder" ? config::nearest_folders(folder) : "");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

bool is_pickle(std::string_view name) {
  constexpr std::array<std::string_view, 6> endings{".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_template(std::string_view name) { return name.ends_with(".jinja") && !name.starts_with("."); }

// True for the names of files that belong to the tokenizer or to generation.
bool is_companion(std::string_view name) {
  constexpr std::array<std::string_view, 12> known{"generation_config.json",
                                                   "tokenizer.json",
                                                   "tokenizer_config.json",
                                                   "special_tokens_map.json",
                                                   "added_tokens.json",
                                                   "vocab.json",
                                                   "vocab.txt",
                                                   "merges.txt",
                                                   "spiece.model",
                                                   "tiktoken.model",
                                                   "chat_template.json",
                                                   "tekken.json"};
  return std::ranges::find(known, name) != known.end() || name.starts_with("tokenizer.model") ||
         (name.ends_with(".tiktoken") && !name.starts_with(".")) || is_template(name);
}

bool is_of_weights(std::string_view name) {
  constexpr std::array<std::string_view, 6> endings{".safetensors", ".index.json", ".h5", ".msgpack", ".gguf", ".onnx"};
  return is_pickle(name) || std::ranges::any_of(endings, [&](std::string_view e) { return name.ends_with(e); });
}

// True for texts and pictures that do not belong to the model itself, and for hidden files.
bool is_about_model(std::string_view name) {
  constexpr std::array<std::string_view, 5> beginnings{".", "README", "LICENSE", "LICENCE", "NOTICE"};
  constexpr std::array<std::string_view, 6> endings{".md", ".png", ".jpg", ".jpeg", ".svg", ".pdf"};
  return std::ranges::any_of(beginnings, [&](std::string_view b) { return name.starts_with(b); }) ||
         std::ranges::any_of(endings, [&](std::string_view e) { return name.ends_with(e); });
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

[[noreturn]] void refuse_without_weights(const std::string& folder, const std::vector<std::string>& names) {
  if (has(names, "manifest.json"))
    fail(ExitCode::data, folder, ": is a checkpoint of Hexad, expected a Hugging Face model (config.json and ",
         single_name, "); a checkpoint needs no import, and `hexad export` writes a model from it");
  const auto pickle = std::ranges::find_if(names, is_pickle);
  if (pickle != names.end())
    fail(ExitCode::data, folder, ": ", *pickle,
         " is a pickle file, which can run arbitrary code when it is read; expected ", single_name,
         " (save_pretrained writes it)");
  const auto shard = std::ranges::find_if(names, [](const std::string& n) { return n.ends_with(".safetensors"); });
  if (shard != names.end())
    fail(ExitCode::data, folder, ": has ", *shard, " but no ", index_name, ", which lists the shards; download ",
         index_name);
  fail(ExitCode::data, folder, ": has neither ", single_name, " nor ", index_name, ", expected one of them");
}

std::map<std::string, std::string> read_index(const std::string& path) {
  const io::Json document = io::parse_json(data::read_file(path, max_index_bytes), path);
  std::map<std::string, std::string> index;
  io::JsonNode(document, path)["weight_map"].members(
      [&](const std::string& tensor, const io::JsonNode& file) { index[tensor] = file.text(); });
  return index;
}

}  // namespace

std::string checked_path(const std::string& folder, const std::string& name) {
  if (name.empty() || name.front() == '.' || name.find_first_of("/\\") != name.npos || name.find('\0') != name.npos)
    fail(ExitCode::data, folder, ": '", config::shown(name),
         "' is not a plain file name; expected a name without a slash, backslash or leading dot");
  std::string path = folder + "/" + name;
  std::error_code error;
  const fs::path inside = fs::canonical(folder, error);
  const fs::path target = error ? fs::path() : fs::canonical(path, error);
  if (error) fail(ExitCode::data, path, ": ", error.message());
  if (target.parent_path() != inside)
    fail(ExitCode::data, path, ": is a link to ", target.string(),
         ", outside of the folder; copy the files themselves (cp -rL)");
  if (const std::string problem = file_problem(path); !problem.empty()) fail(ExitCode::data, path, ": ", problem);
  return path;
}

SourceFolder SourceFolder::open(const std::string& folder, FileWork work) {
  SourceFolder source;
  source.folder_ = folder;
  const std::vector<std::string> names = files_of(folder);
  if (has(names, index_name)) {
    const std::string path = checked_path(folder, index_name);
    source.files_.emplace_back(index_name);
    const auto index = read_index(path);
    std::set<std::string> files;
    for (const auto& [tensor, file] : index) {
      if (!file.ends_with(".safetensors"))
        fail(ExitCode::data, path, ": '", config::shown(tensor), "' is in '", config::shown(file),
             "', expected the name of a .safetensors file", is_pickle(file) ? "; pickle files are not accepted" : "");
      files.insert(file);
    }
    // If the index does not list model.safetensors, other programs read this file instead of the listed shards. The
    // weights may differ.
    if (has(names, single_name) && !files.contains(single_name))
      fail(ExitCode::data, folder, ": has both ", single_name, " and ", index_name,
           ", which does not list the former; remove the outdated file");
    for (const std::string& file : files) source.add_shard(file, work);
    source.require_index(index, path);
  } else if (has(names, single_name)) {
    source.add_shard(single_name, work);
  } else {
    refuse_without_weights(folder, names);
  }
  return source;
}

void SourceFolder::add_shard(const std::string& file, const FileWork& work) {
  shards_.push_back(std::make_unique<data::ReadFile>(checked_path(folder_, file)));
  files_.push_back(file);
  const data::ReadFile& shard = *shards_.back();
  const std::string text = io::read_header_text(shard, work);
  for (const io::HeaderEntry& entry : io::parse_entries(text, shard.size(), known_dtypes, shard.path()).tensors) {
    const auto [at, is_new] = tensors_.try_emplace(
        entry.name, SourceTensor{file, entry.dtype.name, entry.shape, entry.begin, entry.end, &shard});
    if (!is_new)
      fail(ExitCode::data, shard.path(), ": tensor '", entry.name, "' is also in ", at->second.file,
           ", expected each tensor in one file");
  }
}

void SourceFolder::require_index(const std::map<std::string, std::string>& index, const std::string& path) const {
  for (const auto& [tensor, file] : index) {
    const SourceTensor* found = find(tensor);
    if (!found)
      fail(ExitCode::data, path, ": lists '", tensor, "' in ", file,
           ", but this file does not have the tensor; download the folder again");
    if (found->file != file)
      fail(ExitCode::data, path, ": lists '", tensor, "' in ", file, ", but the tensor is in ", found->file,
           "; download the folder again");
  }
  for (const auto& [name, tensor] : tensors_)
    if (!index.contains(name))
      fail(ExitCode::data, path, ": does not list '", name, "', which is in ", tensor.file,
           "; download the folder again");
}

const SourceTensor* SourceFolder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::string companion_path(const std::string& folder, const std::string& name) {
  const size_t slash = name.find('/');
  std::string parent = folder, file = name;
  if (slash != name.npos) {
    parent += "/" + name.substr(0, slash), file = name.substr(slash + 1);
    if (fs::is_symlink(parent))
      fail(ExitCode::data, parent, ": is a link, expected a folder; copy the files themselves (cp -rL)");
  }
  std::string path = checked_path(parent, file);
  if (const auto bytes = static_cast<int64_t>(fs::file_size(path)); bytes > max_companion_bytes)
    fail(ExitCode::data, path, ": has ", bytes, " bytes, expected at most ", max_companion_bytes);
  return path;
}

std::vector<std::string> companion_files(const std::string& folder) {
  std::vector<std::string> names = files_of(folder);
  std::erase_if(names, [](const std::string& name) { return !is_companion(name); });
  const std::string templates = folder + "/" + templates_name;
  if (fs::is_directory(templates))
    for (const std::string& name : files_of(templates))
      if (is_template(name)) names.push_back(cat(templates_name, "/", name));
  std::ranges::sort(names);
  for (const std::string& name : names) companion_path(folder, name);
  return names;
}

std::vector<std::string> uncopied_files(const std::string& folder) {
  std::vector<std::string> names = files_of(folder);
  std::erase_if(names, [&](const std::string& name) {
    std::error_code error;
    return is_companion(name) || is_of_weights(name) || is_about_model(name) || name == "config.json" ||
           !fs::is_regular_file(folder + "/" + name, error);
  });
  return names;
}

std::string listed(std::string_view what, const std::vector<std::string>& names) {
  constexpr size_t max_named = 5;
  std::string text = cat(what, names.size() == 1 ? "" : "s", " ");
  for (size_t i = 0; i < std::min(max_named, names.size()); ++i)
    text += cat(i == 0 ? "'" : ", '", config::shown(names[i]), "'");
  if (names.size() > max_named) text += cat(" and ", names.size() - max_named, " more");
  return text;
}

}  // namespace hexad::interop
