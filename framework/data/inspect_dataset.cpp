#include "framework/data/inspect_dataset.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/data/prepared_folder.h"

namespace hexad::data {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using Part = InspectedDataset::Part;

constexpr int64_t sample_tokens = 64;
constexpr size_t sample_bytes = 160;

bool begins_as_dataset(const fs::path& path) {
  std::array<char, dataset_magic.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), begin.size()) && begin == dataset_magic;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string dtype_of(const Part& part) { return part.tokens->id_format().name(); }

double bytes_per_token(const Part& part) {
  return part.tokens->tokens() > 0
             ? static_cast<double>(part.tokens->text_bytes()) / static_cast<double>(part.tokens->tokens())
             : 0;
}

/// The first tokens of a document, `ids`, and the number of tokens of the whole document, `tokens`.
struct Sample {
  const Part* part;
  int64_t document, tokens;
  std::vector<int32_t> ids;
};

// Returns samples of the first, the middle and the last document.
std::vector<Sample> samples_of(const Part& part) {
  const int64_t documents = part.tokens->documents();
  std::set<int64_t> chosen;
  if (documents > 0) chosen = {0, documents / 2, documents - 1};
  std::vector<Sample> samples;
  for (const int64_t d : chosen) {
    const auto offsets = part.tokens->offsets();
    const int64_t begin = offsets[d], length = offsets[d + 1] - begin;
    std::vector<int32_t> ids(std::min(length, sample_tokens));
    part.tokens->read_ids(begin, ids);
    samples.push_back({&part, d, length, std::move(ids)});
  }
  return samples;
}

// Returns the beginning of the sample's text, with the texts of special tokens, so that readers can check the form of
// chats.
std::string text_of(const InspectedDataset& dataset, const Sample& sample) {
  std::string text = dataset.tokenizer->decode_with_special(sample.ids);
  if (text.size() > sample_bytes) text.resize(sample_bytes);
  return text;
}

// Returns `text` as a string of JSON, in quotes and on one line. Bytes that are not UTF-8 are replaced.
std::string quoted(const std::string& text) {
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string ids_of(const Sample& sample) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(sample.ids.size(), 16); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : " ", sample.ids[i]);
  return text;
}

OrderedJson summary_of(const InspectedDataset& dataset) {
  OrderedJson json = OrderedJson::parse(dataset.summary, nullptr, false);
  return json.is_object() ? json : OrderedJson::object();
}

std::string source_line(const InspectedDataset& dataset) {
  const OrderedJson summary = summary_of(dataset);
  if (!summary.contains("inputs") || !summary["inputs"].is_array()) return "";
  std::string inputs, settings;
  for (const OrderedJson& input : summary["inputs"])
    if (input.is_string()) inputs += (inputs.empty() ? "" : ", ") + input.get<std::string>();
  if (summary.contains("settings") && summary["settings"].is_object())
    for (const auto& [key, value] : summary["settings"].items()) settings += fmt::format(" {} {}", key, value.dump());
  return fmt::format("  made from {}:{}\n", inputs, settings);
}

// True if `record`, a member of summary.json, records the file `name` in the folder, but the file does not exist. The
// fingerprint in a record is empty if the dataset has no such part.
bool lacks_recorded(const OrderedJson& record, const fs::path& folder, std::string_view name) {
  const OrderedJson fingerprint = record.is_object() ? record.value("fingerprint", OrderedJson()) : record;
  return fingerprint.is_string() && fingerprint != "" && !is_file(folder / name);
}

// Returns the problem of summary.json; empty if it describes the files of the folder.
std::string summary_problem(const InspectedDataset& dataset) {
  const OrderedJson summary = OrderedJson::parse(dataset.summary, nullptr, false);
  if (!summary.is_object()) return "damaged: not a JSON object, so the inputs and settings are not known";
  for (const Part& part : dataset.parts) {
    const auto found = summary.find(part.name);
    if (found == summary.end() || !found->is_object()) continue;
    const OrderedJson recorded = found->value("fingerprint", OrderedJson());
    const std::string digest = part.tokens->fingerprint().to_string();
    if (recorded.is_string() && recorded != digest)
      return base::cat("describes another ", fs::path(part.tokens->path()).filename().string(), ", with digest ",
                       recorded.get<std::string>(), ", but the digest of the file is ", digest,
                       "; copy the folder again, or run `hexad prepare` again");
  }
  for (const auto& [key, name] : {std::pair{"tokenizer", tokenizer_file_name}, {"heldout", heldout_file_name}})
    if (lacks_recorded(summary.value(key, OrderedJson()), dataset.path, name))
      return base::cat("records ", name, ", which is missing; copy the file again, or run `hexad prepare` again");
  return "";
}

}  // namespace

bool is_dataset(const std::string& path) {
  if (is_file(path)) return is_megatron_index(path) || begins_as_dataset(path);
  return std::ranges::any_of(prepared_file_names,
                             [&](std::string_view name) { return is_file(fs::path(path) / name); });
}

InspectedDataset open_dataset(const std::string& path, DatasetCheck check,
                              const std::function<void(const std::string&)>& warn) {
  InspectedDataset dataset{.path = path, .parts = {}, .tokenizer = nullptr, .summary = ""};
  const bool single = is_file(path);
  const fs::path folder = single ? fs::path(path).parent_path() : fs::path(path);
  if (const fs::path file = folder / tokenizer_file_name; is_file(file))
    dataset.tokenizer = load_tokenizer(file.string());
  DatasetOpenOptions options{.check = check};
  if (dataset.tokenizer) options.vocab_size = dataset.tokenizer->vocab_size();
  const auto open = [&](std::string name, const fs::path& file) {
    if (is_file(file))
      dataset.parts.push_back({std::move(name), std::make_unique<TokenDataset>(file.string(), options)});
  };
  if (single) {
    open(fs::path(path).filename().string(), path);
  } else {
    const bool has_tokens = is_file(folder / summary_file_name) || is_file(folder / heldout_file_name);
    if (has_tokens && !is_file(folder / train_file_name))
      base::fail(base::ExitCode::data, path, ": has no ", train_file_name,
                 ", which contains the tokens of a dataset; copy the file again, or run `hexad prepare` again");
    open("train", folder / train_file_name);
    open("heldout", folder / heldout_file_name);
  }
  if (const fs::path file = folder / summary_file_name; !single && is_file(file)) {
    dataset.summary = read_file(file.string(), largest_summary);
    if (const std::string problem = summary_problem(dataset); !problem.empty()) {
      if (check == DatasetCheck::everything) base::fail(base::ExitCode::data, file.string(), ": ", problem);
      warn(base::cat(file.string(), ": ", problem));
    }
  }
  for (const Part& part : dataset.parts)
    if (dataset.tokenizer && part.tokens->has_tokenizer() &&
        part.tokens->tokenizer() != dataset.tokenizer->fingerprint()) {
      warn(base::cat(part.tokens->path(), ": was encoded with tokenizer ", part.tokens->tokenizer(), ", but ",
                     (folder / tokenizer_file_name).string(), " is tokenizer ", dataset.tokenizer->fingerprint(),
                     "; replace that file by the tokenizer of the dataset, or run `hexad prepare` again"));
      dataset.tokenizer.reset();
    }
  return dataset;
}

std::string describe(const InspectedDataset& dataset) {
  std::string text = dataset.path + "\n";
  const auto& tokenizer = dataset.tokenizer;
  text += tokenizer ? fmt::format("  tokenizer {}, vocabulary {}, digest {}\n", tokenizer->contents().kind,
                                  tokenizer->vocab_size(), tokenizer->fingerprint().to_string())
                    : "  no tokenizer: samples are token ids\n";
  text += source_line(dataset);
  for (const Part& part : dataset.parts) {
    const TokenDataset& t = *part.tokens;
    const std::string documents = base::plural(t.documents(), "document");
    text += fmt::format("  {:<9} {:>14} {:<6} {:>12} ", part.name, fmt::group_digits(t.tokens()),
                        base::plural(t.tokens(), "token"), fmt::group_digits(t.documents()));
    // An index of Megatron-LM does not record the size of its text.
    text += t.text_bytes() > 0 || t.tokens() == 0
                ? fmt::format("{:<9} {:>16} bytes of text, {:.2f} per token\n", documents,
                              fmt::group_digits(t.text_bytes()), bytes_per_token(part))
                : documents + "\n";
    text += fmt::format("  {:<9} {}, {}, vocabulary {}{}, digest {}\n", "", t.path(), dtype_of(part),
                        t.has_tokenizer() ? std::to_string(t.vocab_size()) : "not recorded",
                        t.has_loss_mask() ? ", with a loss mask" : "", t.fingerprint().to_string());
  }
  for (const Part& part : dataset.parts)
    for (const Sample& sample : samples_of(part))
      text +=
          fmt::format("{} document {} ({}): {}\n", part.name, sample.document, base::counted(sample.tokens, "token"),
                      tokenizer ? quoted(text_of(dataset, sample)) : ids_of(sample));
  text.pop_back();  // the caller prints the last line end
  return text;
}

std::string describe_json(const InspectedDataset& dataset) {
  OrderedJson parts = OrderedJson::array();
  for (const Part& part : dataset.parts) {
    const TokenDataset& t = *part.tokens;
    OrderedJson samples = OrderedJson::array();
    for (const Sample& sample : samples_of(part))
      samples.push_back({{"document", sample.document},
                         {"tokens", sample.tokens},
                         {"ids", sample.ids},
                         {"text", dataset.tokenizer ? OrderedJson(text_of(dataset, sample)) : OrderedJson(nullptr)}});
    parts.push_back(
        {{"part", part.name},
         {"file", t.path()},
         {"documents", t.documents()},
         {"tokens", t.tokens()},
         {"text_bytes", t.text_bytes()},
         {"bytes_per_token", bytes_per_token(part)},
         {"vocab_size", t.has_tokenizer() ? OrderedJson(t.vocab_size()) : OrderedJson(nullptr)},
         {"dtype", dtype_of(part)},
         {"loss_mask", t.has_loss_mask()},
         {"digest", t.fingerprint().to_string()},
         {"tokenizer_digest", t.has_tokenizer() ? OrderedJson(t.tokenizer().to_string()) : OrderedJson(nullptr)},
         {"samples", std::move(samples)}});
  }
  OrderedJson tokenizer = nullptr;
  if (dataset.tokenizer)
    tokenizer = {{"kind", dataset.tokenizer->contents().kind},
                 {"vocab_size", dataset.tokenizer->vocab_size()},
                 {"digest", dataset.tokenizer->fingerprint().to_string()}};
  const OrderedJson summary = summary_of(dataset);
  const OrderedJson json{{"dataset", dataset.path},
                         {"tokenizer", std::move(tokenizer)},
                         {"inputs", summary.value("inputs", OrderedJson::array())},
                         {"settings", summary.value("settings", OrderedJson::object())},
                         {"parts", std::move(parts)}};
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace hexad::data
