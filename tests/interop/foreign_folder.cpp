#include "tests/interop/foreign_folder.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "framework/base/error.h"

namespace hexad::tests {

namespace fs = std::filesystem;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

std::string golden_folder(const std::string& family) { return base::cat(HEXAD_SOURCE_DIR "/tests/golden/hf/", family); }

RawTensors read_tensors(const std::string& path) {
  const std::string file = read_text(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::string data = file.substr(sizeof length + length);
  const Json header = Json::parse(file.substr(sizeof length, length));
  RawTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = entry["data_offsets"].get<std::vector<size_t>>();
    tensors[name] = {entry["dtype"], entry["shape"], data.substr(offsets[0], offsets[1] - offsets[0])};
  }
  return tensors;
}

void write_tensors(const std::string& path, const RawTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  write_text(path, file + text + data);
}

RawTensors tensors_of(const std::string& folder) {
  RawTensors all;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" && entry.path().filename() != "reference.safetensors")
      all.merge(read_tensors(entry.path().string()));
  return all;
}

ForeignFolder::ForeignFolder(const std::string& family) {
  fs::create_directory(path());
  for (const char* name : {"config.json", "model.safetensors", "generation_config.json"})
    fs::copy_file(golden_folder(family) + "/" + name, path() + "/" + name);
}

void ForeignFolder::change_config(const std::function<void(Json&)>& change) const {
  Json config = Json::parse(read_text(path() + "/config.json"));
  change(config);
  write_text(path() + "/config.json", config.dump(2));
}

void ForeignFolder::change_tensors(const std::function<void(RawTensors&)>& change) const {
  RawTensors tensors = read_tensors(path() + "/model.safetensors");
  change(tensors);
  write_tensors(path() + "/model.safetensors", tensors);
}

void ForeignFolder::divide() const {
  const RawTensors all = read_tensors(path() + "/model.safetensors");
  RawTensors halves[2];
  Json index{{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
  size_t i = 0;
  for (const auto& [name, tensor] : all) {
    const size_t half = 2 * i++ / all.size();
    halves[half][name] = tensor;
    index["weight_map"][name] = half == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
  }
  write_tensors(path() + "/model-00001-of-00002.safetensors", halves[0]);
  write_tensors(path() + "/model-00002-of-00002.safetensors", halves[1]);
  write_text(path() + "/model.safetensors.index.json", index.dump());
  fs::remove(path() + "/model.safetensors");
}

}  // namespace hexad::tests
