#include "tools/interop/export_model.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "framework/device/context.h"
#include "framework/io/json.h"
#include "framework/io/safetensors_stream.h"
#include "tools/interop/config_json.h"
#include "tools/interop/find_origin.h"
#include "tools/interop/latent_rows.h"
#include "tools/interop/new_folder.h"
#include "tools/interop/origin.h"
#include "tools/interop/source_folder.h"
#include "tools/interop/tensor_map.h"

namespace hexad::interop {

using namespace base;

namespace {

constexpr int64_t block_elements = 1 << 21;  // elements converted at a time

/// Source of config.json and the tokenizer files, and the family to write.
struct ExportSources {
  std::optional<Origin> origin;
  std::optional<ForeignConfig> origin_config;
  const Family* family;

  /// True if the config.json of the origin is kept or adapted. If the origin is of another family, only its tokenizer
  /// files, its token ids and its usual type are used.
  bool keeps_config() const { return origin && origin_config->family == family; }
  /// Returns the layout of the experts: the layout of the import if keeps_config() and the origin has an origin.json,
  /// otherwise the family's usual layout.
  ExpertLayout experts() const {
    if (keeps_config() && origin->element) return origin->experts;
    return family->fused_experts ? ExpertLayout::fused : ExpertLayout::separate;
  }
};

ExportSources find_sources(const io::Checkpoint& checkpoint, const ExportOptions& options) {
  ExportSources sources{std::nullopt, std::nullopt, nullptr};
  if (!options.family.empty()) sources.family = &find_family(options.family, "--family");
  const std::string folder = options.like.empty() ? find_origin(checkpoint) : options.like;
  if (folder.empty() && !sources.family)
    fail(ExitCode::usage, checkpoint.folder(),
         ": the run did not start from an imported model, or the import has been removed; give the folder of a model "
         "with the same config.json (--like), or the family of a new config.json (--family)");
  if (folder.empty()) return sources;
  const std::string beside = folder + "/" + std::string(origin_folder_name);
  sources.origin = read_origin(has_config(beside) ? beside : folder);
  sources.origin_config = read_config(sources.origin->config, sources.origin->folder + "/config.json");
  if (!sources.family) sources.family = sources.origin_config->family;
  return sources;
}

/// Returns a new config.json with the token ids of the origin's config.json.
std::string with_token_ids(const std::string& config, const std::string& origin) {
  OrderedJson written = OrderedJson::parse(config);
  const OrderedJson before = OrderedJson::parse(origin);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (before.contains(key)) written[key] = before[key];
  return written.dump(2) + "\n";
}

/// Returns warnings about keys of the recipe that change the experts of a token, and that no config.json has.
std::vector<std::string> warnings_of_routing(const ModelKeys& keys) {
  std::vector<std::string> warnings;
  if (keys.integer("model.moe.experts") == 0) return warnings;
  if (const Json& factor = keys["model.moe.capacity_factor"]; !factor.is_null())
    warnings.push_back(cat("warning: model.moe.capacity_factor is ", factor.dump(),
                           ", but the exported model drops no token, so it computes other results than this run "
                           "wherever an expert is full"));
  if (const std::string& routing = keys.text("model.moe.routing"); routing != "model")
    warnings.push_back(cat("warning: model.moe.routing is ", routing,
                           ", but in the exported model, the router chooses the experts of a token"));
  return warnings;
}

/// Returns notes about the routing, the config.json and the copied files. `same_dtype` is true if the dtype is the
/// origin's dtype.
std::vector<std::string> export_notes(const ExportSources& sources, const ModelKeys& keys, bool same_dtype) {
  std::vector<std::string> notes = warnings_of_routing(keys);
  if (!sources.origin) {
    notes.emplace_back("config.json was made from the recipe, and no tokenizer files were copied");
    return notes;
  }
  const ForeignConfig& before = *sources.origin_config;
  if (!sources.keeps_config())
    notes.push_back(cat("config.json was made from the recipe, because ", sources.origin->folder, " has a ",
                        before.family->model_type, " model; tokenizer files",
                        same_dtype ? ", token ids and dtype" : " and token ids", " are from this folder"));
  if (before.keys["model.vocab"] != keys["model.vocab"])
    notes.push_back(cat("warning: model.vocab is ", keys["model.vocab"].dump(),
                        ", but the copied tokenizer files are for a vocabulary of ", before.keys["model.vocab"].dump(),
                        " tokens; replace them with files for the new vocabulary"));
  return notes;
}

/// Element types of the foreign tensors.
class Types {
 public:
  Types(const std::string& wanted, const ExportSources& sources) {
    if (sources.origin) {
      for (const Element element : {Element::f32, Element::bf16, Element::f16})
        if (config_name(element) == sources.origin_config->dtype) usual_ = element;
      usual_ = sources.origin->element.value_or(usual_);
    }
    if (sources.keeps_config()) exceptions_ = sources.origin->exceptions;
    // The types of single tensors are known only from the origin.json of an origin of the same family. Without it,
    // states remain f32, because rounding them would change the routing.
    states_in_f32_ = !sources.keeps_config() || !sources.origin->element;
    if (wanted == "source") return;
    usual_ = wanted == "bf16" ? Element::bf16 : wanted == "f16" ? Element::f16 : Element::f32;
    exceptions_.clear();
    states_in_f32_ = true;
  }

  Element usual() const { return usual_; }
  Element of(const Link& link, const TensorMap& map) const {
    const auto found = exceptions_.find(link.original.empty() ? link.theirs : link.original);
    if (found != exceptions_.end()) return found->second;
    const bool state = map.own[link.parts.front().own].kind == io::Kind::state;
    return state && states_in_f32_ ? Element::f32 : usual_;
  }

 private:
  Element usual_ = Element::f32;
  std::map<std::string, Element> exceptions_;
  bool states_in_f32_ = false;
};

/// Reads foreign tensors out of a checkpoint.
class TensorReader {
 public:
  TensorReader(io::Checkpoint& checkpoint, const TensorMap& map, const Sizes& sizes)
      : checkpoint_(checkpoint), map_(map), sizes_(sizes) {}

  /// Checks the shapes of all parameters. Also checks that the family has a tensor for each parameter of the
  /// checkpoint. Call check() before a file is written.
  void check(const Family& family) const {
    for (const OwnTensor& own : map_.own) {
      const Shape& stored = checkpoint_.record(own.name, own.kind).shape;
      if (!(stored == own.shape))
        fail(ExitCode::data, checkpoint_.folder(), ": ", own.name, " is ", stored, ", expected ", own.shape,
             " by the recipe");
    }
    for (const io::TensorRecord& record : checkpoint_.manifest().tensors) {
      if (record.kind != io::Kind::main) continue;
      const auto same = [&](const OwnTensor& own) { return own.name == record.name; };
      if (std::ranges::none_of(map_.own, same))
        fail(ExitCode::data, checkpoint_.folder(), ": the model family ", family.model_type,
             " has no tensor for the parameter ", record.name, "; choose another family (--family)");
    }
  }

  /// Appends the bytes of a foreign tensor.
  void write(const Link& link, Element type, io::SafetensorsStream& out) {
    if (link.rearrangement == Rearrangement::none) {
      for (const Link::Part& part : link.parts)
        for_each_block(link, part.own, part.region, type, [&](std::span<const std::byte> bytes) {
          out.append(bytes.data(), static_cast<int64_t>(bytes.size()));
        });
      return;
    }
    if (is_by_expert(link.rearrangement)) return write_by_expert(link, type, out);
    std::vector<std::byte> joined;
    for (const Link::Part& part : link.parts)
      for_each_block(link, part.own, part.region, type, [&](std::span<const std::byte> bytes) {
        joined.insert(joined.end(), bytes.begin(), bytes.end());
      });
    const int64_t bytes = bytes_of(type);
    std::vector<std::byte> rearranged(joined.size());
    if (link.rearrangement == Rearrangement::transposed)
      transpose(rearranged.data(), joined.data(), link.shape[1], link.shape[0], bytes);
    else
      scatter_rows(rearranged.data(), joined.data(), sizes_.moved_rows(link.rearrangement, link.shape[0]),
                   link.shape.numel() / link.shape[0] * bytes);
    out.append(rearranged.data(), static_cast<int64_t>(rearranged.size()));
  }

 private:
  /// Appends a foreign tensor whose only part is a whole parameter. Reads one expert at a time.
  void write_by_expert(const Link& link, Element type, io::SafetensorsStream& out) {
    for (int64_t e = 0, experts = link.rearranged_shape()[0]; e < experts; ++e) {
      const Link::Part& whole = link.parts.front();
      io::Region expert = whole.region;
      expert.begin[0] = e, expert.size[0] = 1;
      std::vector<std::byte> own;
      for_each_block(link, whole.own, expert, type,
                     [&](std::span<const std::byte> bytes) { own.insert(own.end(), bytes.begin(), bytes.end()); });
      std::vector<std::byte> theirs(own.size());
      expert_to_foreign(theirs, own, link, bytes_of(type));
      out.append(theirs.data(), static_cast<int64_t>(theirs.size()));
    }
  }

  /// Calls use(bytes) with consecutive elements of a region of parameter `index`, converted to `type`. The bytes are
  /// valid until use() returns.
  void for_each_block(const Link& link, size_t index, const io::Region& region, Element type,
                      const std::function<void(std::span<const std::byte>)>& use) {
    const OwnTensor& own = map_.own[index];
    const io::Tensor tensor = checkpoint_.read(own.name, own.kind, region, device_, device::Category::temporary);
    const std::string where = cat(checkpoint_.folder(), ": ", own.name, ", which is ", link.theirs, ",");
    const std::string of_region = cat(" of region ", io::to_string(region));
    const auto* elements = static_cast<const std::byte*>(tensor.raw());
    std::vector<std::byte> narrow, converted;
    for (int64_t done = 0, all = tensor.numel(); done < all; done += block_elements) {
      const int64_t count = std::min(block_elements, all - done);
      const auto [from, from_type] = as_element(tensor.dtype(), elements, done, count, narrow, where);
      if (const int64_t bad = first_non_finite(from, from_type, count); bad >= 0)
        fail(ExitCode::data, where, " has NaN or infinity at element ", done + bad, of_region,
             ", expected finite weights");
      if (type == from_type) {
        use({from, static_cast<size_t>(count * bytes_of(type))});
        continue;
      }
      converted.resize(count * bytes_of(type));
      convert(converted.data(), type, from, from_type, count);
      if (const int64_t bad = first_non_finite(converted.data(), type, count); bad >= 0)
        fail(ExitCode::data, where, " has a value beyond the range of ", config_name(type), " at element ", done + bad,
             of_region, "; choose another --dtype");
      use(converted);
    }
  }

  struct Elements {
    const std::byte* first;
    Element type;
  };
  /// Returns elements of a parameter. Rounds f64 elements to f32 and stores them in `narrow`.
  static Elements as_element(Dtype dtype, const std::byte* elements, int64_t begin, int64_t count,
                             std::vector<std::byte>& narrow, const std::string& where) {
    if (dtype == Dtype::f32) return {elements + begin * 4, Element::f32};
    if (dtype == Dtype::bf16) return {elements + begin * 2, Element::bf16};
    if (dtype != Dtype::f64) fail(ExitCode::data, where, " is ", dtype, ", expected f32, bf16 or f64");
    narrow.resize(count * 4);
    const auto* wide = reinterpret_cast<const double*>(elements) + begin;
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(wide[i]);
      std::memcpy(narrow.data() + i * 4, &value, sizeof value);
    }
    return {narrow.data(), Element::f32};
  }

  io::Checkpoint& checkpoint_;
  const TensorMap& map_;
  const Sizes& sizes_;
  device::DeviceContext host_;
  device::Device device_{host_};
};

/// Foreign tensors of one file.
struct Shard {
  std::string file;
  std::vector<const Link*> links;
};

std::vector<Shard> divided(const TensorMap& map, const Types& types, int64_t most) {
  std::vector<const Link*> sorted;
  for (const Link& link : map.links) sorted.push_back(&link);
  for (const Link& copy : map.copies) sorted.push_back(&copy);
  std::ranges::sort(sorted, {}, &Link::theirs);
  std::vector<Shard> shards(1);
  int64_t bytes = 0;
  for (const Link* link : sorted) {
    const int64_t more = link->shape.numel() * bytes_of(types.of(*link, map));
    if (!shards.back().links.empty() && bytes + more > most) shards.emplace_back(), bytes = 0;
    shards.back().links.push_back(link), bytes += more;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].file = shards.size() == 1 ? "model.safetensors"
                                        : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

void write_shard(const Shard& shard, const std::string& path, TensorReader& reader, const TensorMap& map,
                 const Types& types, const FileWork& work) {
  std::vector<io::StreamedTensor> tensors;
  std::map<std::string, const Link*> by_name;
  for (const Link* link : shard.links) {
    tensors.push_back({link->theirs, stored(types.of(*link, map)), link->shape});
    by_name[link->theirs] = link;
  }
  io::sort_for_file(tensors);
  io::SafetensorsStream out(path, tensors, {{"format", "pt"}}, work);
  for (const io::StreamedTensor& tensor : tensors) {
    const Link& link = *by_name[tensor.name];
    reader.write(link, types.of(link, map), out);
  }
  out.finish();
}

std::string index_json(const std::vector<Shard>& shards, int64_t bytes) {
  io::Json index{{"metadata", {{"total_size", bytes}}}, {"weight_map", io::Json::object()}};
  for (const Shard& shard : shards)
    for (const Link* link : shard.links) index["weight_map"][link->theirs] = shard.file;
  return index.dump(2) + "\n";
}

}  // namespace

ExportReport export_model(io::Checkpoint& checkpoint, const std::string& target, const ExportOptions& options,
                          const FileWork& work) {
  const ExportSources sources = find_sources(checkpoint, options);
  const ModelKeys keys = ModelKeys::from_recipe(recipe_of(checkpoint), checkpoint.folder() + "/manifest.json: recipe");
  const Types types(options.dtype, sources);
  // Sets the dtype in config.json only if the config.json is new, or if options.dtype names a dtype.
  const bool same_type = sources.keeps_config() && options.dtype == "source";
  std::string config = write_config(*sources.family, keys, sources.keeps_config() ? sources.origin->config : "",
                                    same_type ? "" : config_name(types.usual()));
  if (sources.origin && !sources.keeps_config()) config = with_token_ids(config, sources.origin->config);
  const Sizes sizes(keys, *sources.family, sources.experts());
  const TensorMap map = map_tensors(*sources.family, sizes);
  TensorReader reader(checkpoint, map, sizes);
  reader.check(*sources.family);

  ExportReport report;
  if (sources.origin) report.files = companion_files(sources.origin->folder);
  report.notes = export_notes(sources, keys, options.dtype == "source");
  NewFolder folder(target, work);
  const std::vector<Shard> shards = divided(map, types, options.shard_bytes);
  for (const Shard& shard : shards) write_shard(shard, folder.path() + "/" + shard.file, reader, map, types, work);
  report.model_type = sources.family->model_type;
  if (sources.keeps_config()) report.origin = sources.origin->folder;
  report.shards = static_cast<int64_t>(shards.size());
  for (const Link& link : map.links) {
    ++report.tensors, report.parameters += link.shape.numel();
    report.bytes += link.shape.numel() * bytes_of(types.of(link, map));
  }
  for (const Link& copy : map.copies) {
    ++report.tensors;
    report.bytes += copy.shape.numel() * bytes_of(types.of(copy, map));
  }
  if (shards.size() > 1) folder.add_file("model.safetensors.index.json", index_json(shards, report.bytes));
  folder.add_file("config.json", config);
  for (const std::string& name : report.files) folder.copy_file(sources.origin->folder, name);
  folder.commit();
  return report;
}

}  // namespace hexad::interop
