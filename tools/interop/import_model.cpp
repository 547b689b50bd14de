#include "tools/interop/import_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/config/typed_recipe.h"
#include "framework/config/words.h"
#include "framework/data/file.h"
#include "framework/io/safetensors_stream.h"
#include "layers/base/model_config.h"
#include "tools/interop/config_json.h"
#include "tools/interop/new_folder.h"
#include "tools/interop/origin.h"
#include "tools/interop/source_folder.h"
#include "tools/interop/tensor_map.h"

namespace hexad::interop {

using namespace base;

namespace {

constexpr int64_t window_bytes = 8 << 20;

/// True if `name` matches `pattern`, in which * stands for any text.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1), name.remove_prefix(star);
  for (size_t at = 0; at <= name.size(); ++at)
    if (matches(pattern, name.substr(at))) return true;
  return false;
}

/// Foreign tensors of a model with their names in the folder. Checkpoints of a model without its head have names
/// without the first word, such as "embed_tokens.weight".
class Weights {
 public:
  Weights(const SourceFolder& source, const ForeignConfig& config, const TensorMap& map)
      : source_(source), config_(config) {
    const std::string& first = map.links.front().theirs;
    bare_ = !source.find(first) && source.find(without_first_word(first));
  }

  const SourceTensor& operator[](const Link& link) const { return *source_.find(name_of(link)); }
  std::string name_of(const Link& link) const {
    return bare_ && link.theirs != "lm_head.weight" ? without_first_word(link.theirs) : link.theirs;
  }
  std::string where(const Link& link) const {
    return cat(source_.folder(), "/", (*this)[link].file, ": tensor '", name_of(link), "'");
  }

  /// Checks that the folder has exactly the tensors of `map`, with their shapes. Returns notes about ignored tensors.
  std::vector<std::string> check(const TensorMap& map) const {
    std::set<std::string> expected;
    std::vector<std::string> missing, unknown;
    for (const Link& link : map.links) {
      const std::string name = name_of(link);
      expected.insert(name);
      if (!source_.find(name)) missing.push_back(name);
    }
    int64_t ignored = 0;
    for (const auto& [name, tensor] : source_.tensors()) {
      if (expected.contains(name)) continue;
      if (is_ignored(name) || is_tied_head(name))
        ++ignored;
      else
        unknown.push_back(name);
    }
    if (!missing.empty()) fail(ExitCode::data, source_.folder(), ": ", listed("missing tensor", missing));
    if (!unknown.empty())
      fail(ExitCode::data, source_.folder(), ": ", listed("unknown tensor", unknown), ", which no parameter of a ",
           config_.family->model_type, " model has");
    for (const Link& link : map.links) check_tensor(link);
    if (ignored == 0) return {};
    return {cat(counted(ignored, "tensor"), " without a parameter (masks, prediction layers, a tied head) ",
                ignored == 1 ? "was" : "were", " not read")};
  }

 private:
  static std::string without_first_word(const std::string& name) { return name.substr(name.find('.') + 1); }

  static std::string listed(std::string_view what, const std::vector<std::string>& names) {
    constexpr size_t most_named = 5;
    std::string text = cat(what, names.size() == 1 ? "" : "s", " ");
    for (size_t i = 0; i < std::min(most_named, names.size()); ++i)
      text += cat(i == 0 ? "'" : ", '", config::shown(names[i]), "'");
    if (names.size() > most_named) text += cat(" and ", names.size() - most_named, " more");
    return text;
  }

  bool is_ignored(const std::string& name) const {
    if (matches("*rotary_emb.inv_freq", name)) return true;
    return std::ranges::any_of(config_.family->ignored, [&](std::string_view pattern) {
      std::string text(pattern);
      if (const size_t at = text.find("{N}"); at != text.npos)
        text.replace(at, 3, cat(config_.keys.integer("model.layers")));
      return matches(text, name);
    });
  }

  /// True for a stored head that equals the embedding to which it is tied. Throws Error(data) if they differ.
  bool is_tied_head(const std::string& name) const {
    if (name != "lm_head.weight" || !config_.keys.flag("model.tied_embedding")) return false;
    const SourceTensor& head = *source_.find(name);
    for (const char* candidate :
         {"model.embed_tokens.weight", "embed_tokens.weight", "transformer.wte.weight", "wte.weight"}) {
      const SourceTensor* embedding = source_.find(candidate);
      if (!embedding) continue;
      if (embedding->dtype == head.dtype && embedding->shape == head.shape && equal(head, *embedding)) return true;
      fail(ExitCode::data, source_.folder(), "/", head.file, ": tensor '", name, "' differs from '", candidate,
           "', but tie_word_embeddings says that they are the same; set it to false in config.json");
    }
    return false;
  }

  static bool equal(const SourceTensor& a, const SourceTensor& b) {
    std::vector<std::byte> left(window_bytes), right(window_bytes);
    for (int64_t at = 0, bytes = a.end - a.begin; at < bytes; at += window_bytes) {
      const int64_t count = std::min(window_bytes, bytes - at);
      a.read(at, left.data(), count), b.read(at, right.data(), count);
      if (!std::equal(left.begin(), left.begin() + count, right.begin())) return false;
    }
    return true;
  }

  void check_tensor(const Link& link) const {
    const SourceTensor& tensor = (*this)[link];
    if (tensor.shape != link.shape)
      fail(ExitCode::data, where(link), " is ", tensor.shape, ", expected ", link.shape, " by config.json");
    if (!element_of(tensor.dtype))
      fail(ExitCode::data, where(link), " is ", tensor.dtype, ", expected F32, BF16 or F16");
  }

  const SourceFolder& source_;
  const ForeignConfig& config_;
  bool bare_;
};

/// A part of a parameter: part `index` of the parts of a link.
struct Slot {
  const Link* link;
  size_t index;
};

/// Writes parameters from foreign tensors.
class ParameterWriter {
 public:
  ParameterWriter(const Weights& weights, const TensorMap& map, const Sizes& sizes)
      : weights_(weights), sizes_(sizes), slots_(map.own.size()) {
    for (const Link& link : map.links)
      for (size_t i = 0; i < link.parts.size(); ++i) slots_[link.parts[i].own].push_back({&link, i});
    for (std::vector<Slot>& slots : slots_)
      std::ranges::sort(slots, {}, [](const Slot& s) { return s.link->parts[s.index].first; });
  }

  /// Returns the type in which a parameter is stored: bf16 if all of its parts are, otherwise f32.
  Dtype dtype_of(size_t own) const {
    const bool all = std::ranges::all_of(slots_[own], [&](const Slot& s) { return element(s) == Element::bf16; });
    return all ? Dtype::bf16 : Dtype::f32;
  }

  /// Appends the bytes of a parameter.
  void write(size_t own, io::SafetensorsStream& out) {
    const Element target = dtype_of(own) == Dtype::bf16 ? Element::bf16 : Element::f32;
    for (const Slot& slot : slots_[own])
      if (slot.link->rearrangement == Rearrangement::none)
        write_in_windows(slot, target, out);
      else
        write_rearranged(slot, target, out);
  }

 private:
  Element element(const Slot& slot) const { return *element_of(weights_[*slot.link].dtype); }

  void write_in_windows(const Slot& slot, Element target, io::SafetensorsStream& out) {
    const SourceTensor& tensor = weights_[*slot.link];
    const Element type = element(slot);
    const int64_t part = slot.link->shape.numel() / static_cast<int64_t>(slot.link->parts.size());
    const int64_t begin = part * static_cast<int64_t>(slot.index), most = window_bytes / bytes_of(type);
    for (int64_t done = 0; done < part;) {
      const int64_t count = std::min(most, part - done);
      from_.resize(count * bytes_of(type));
      tensor.read((begin + done) * bytes_of(type), from_.data(), count * bytes_of(type));
      append(slot, from_.data(), count, begin + done, target, out);
      done += count;
    }
  }

  void write_rearranged(const Slot& slot, Element target, io::SafetensorsStream& out) {
    const Link& link = *slot.link;
    const Element type = element(slot);
    const int64_t elements = link.shape.numel(), bytes = bytes_of(type);
    from_.resize(elements * bytes), whole_.resize(elements * bytes);
    weights_[link].read(0, from_.data(), elements * bytes);
    if (link.rearrangement == Rearrangement::transposed) {
      transpose(whole_.data(), from_.data(), link.shape[0], link.shape[1], bytes);
    } else {
      const int64_t row = elements / link.shape[0] * bytes;
      pairs_to_halves(whole_.data(), from_.data(),
                      {link.shape[0] / sizes_.head(), sizes_.head(), sizes_.rotary(), row});
    }
    const int64_t part = elements / static_cast<int64_t>(link.parts.size());
    const int64_t begin = part * static_cast<int64_t>(slot.index);
    append(slot, whole_.data() + begin * bytes, part, begin, target, out);
  }

  /// Converts and appends elements of a foreign tensor, from element `first` on.
  void append(const Slot& slot, const std::byte* elements, int64_t count, int64_t first, Element target,
              io::SafetensorsStream& out) {
    const Element type = element(slot);
    if (const int64_t bad = first_non_finite(elements, type, count); bad >= 0)
      fail(ExitCode::data, weights_.where(*slot.link), " has NaN or infinity at element ", first + bad,
           ", expected finite weights");
    if (type == target) return out.append(elements, count * bytes_of(type));
    converted_.resize(count * bytes_of(target));
    convert(converted_.data(), target, elements, type, count);
    out.append(converted_.data(), count * bytes_of(target));
  }

  const Weights& weights_;
  const Sizes& sizes_;
  std::vector<std::vector<Slot>> slots_;  // by parameter, in the order of their elements
  std::vector<std::byte> from_, whole_, converted_;
};

ExpertLayout layout_of(const SourceFolder& source) {
  const bool fused = std::ranges::any_of(
      source.tensors(), [](const auto& t) { return std::string_view(t.first).ends_with(".mlp.experts.gate_up_proj"); });
  return fused ? ExpertLayout::fused : ExpertLayout::separate;
}

/// Divides parameters into shards of at most `most` bytes, except that a larger parameter is a shard by itself.
std::vector<std::vector<size_t>> divided(const TensorMap& map, const ParameterWriter& writer, int64_t most) {
  std::vector<std::vector<size_t>> shards(1);
  int64_t bytes = 0;
  for (size_t i = 0; i < map.own.size(); ++i) {
    const int64_t more = map.own[i].shape.numel() * size_of(writer.dtype_of(i));
    if (!shards.back().empty() && bytes + more > most) shards.emplace_back(), bytes = 0;
    shards.back().push_back(i), bytes += more;
  }
  return shards;
}

std::string write_shard(const NewFolder& folder, size_t index, size_t count, std::vector<size_t> members,
                        const TensorMap& map, ParameterWriter& writer, const FileWork& work) {
  std::ranges::stable_sort(members, std::greater{}, [&](size_t i) { return size_of(writer.dtype_of(i)); });
  std::vector<io::StreamedTensor> tensors;
  for (const size_t i : members) {
    const Dtype dtype = writer.dtype_of(i);
    tensors.push_back({cat(io::name_of(map.own[i].kind), ":", map.own[i].name),
                       {io::safetensors_name_of(dtype), size_of(dtype)},
                       map.own[i].shape});
  }
  io::ShardPart part{static_cast<int>(index),
                     static_cast<int>(count),
                     {fmt::format("shard-{:05}-of-{:05}.safetensors", index, count), 0, ""},
                     {}};
  io::SafetensorsStream out(folder.path() + "/" + part.shard.file, tensors, {{"format", "hexad"}, {"step", "0"}}, work);
  for (const size_t i : members) writer.write(i, out);
  const io::SafetensorsResult written = out.finish();
  part.shard.bytes = written.bytes, part.shard.digest = written.digest;
  for (size_t i = 0; i < members.size(); ++i) {
    const OwnTensor& own = map.own[members[i]];
    io::Piece piece{index, tensors[i].name, io::whole(own.shape), written.tensors[i]};
    part.tensors.push_back({own.name, own.kind, writer.dtype_of(members[i]), own.shape, {std::move(piece)}});
  }
  return io::part_to_json(part);
}

io::RunState state_of(const std::string& recipe, const std::string& source) {
  io::RunState run;
  run.recipe = recipe;
  run.data_position = R"({"next_sequence": 0, "fingerprints": [], "shuffle": "documents"})";
  run.random_state = R"({"skipped": 0, "schedule": "", "schedule_choice": ""})";
  run.layout = io::Json("imported from " + source).dump(-1, ' ', true, io::Json::error_handler_t::replace);
  return run;
}

Origin origin_of(const SourceFolder& source, const Weights& weights, const TensorMap& map, ExpertLayout layout,
                 std::string config) {
  Origin origin{"", std::move(config), layout, std::nullopt, {}};
  std::map<Element, int64_t> counts;
  for (const Link& link : map.links) ++counts[*element_of(weights[link].dtype)];
  origin.element = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
  for (const Link& link : map.links)
    if (const Element element = *element_of(weights[link].dtype); element != *origin.element)
      origin.exceptions[link.theirs] = element;
  origin.folder = source.folder();
  return origin;
}

/// The part of a recipe that an import writes.
struct ModelSection {
  layers::ModelConfig model;

  template <class V>
  void fields(V& v) {
    v("model", model, "the model");
  }
};

/// Throws Error(data) if the recipe would be refused.
void require_accepted(const std::string& recipe, const std::string& where) {
  try {
    config::Problems problems;
    config::read<ModelSection>(config::parse(recipe, "recipe.yaml"), problems);
    problems.throw_if_any();
  } catch (const Error& error) {
    fail(ExitCode::data, where, ": describes a model that Hexad refuses: ", error.what());
  }
}

std::string recipe_text(const ForeignConfig& config, const std::string& target) {
  return cat("# A ", config.family->model_type,
             " model that was imported. Complete it with data.dataset, batch and optim.\n", config.keys.yaml(),
             "train:\n  init_from: ", io::Json(target).dump(-1, ' ', false, io::Json::error_handler_t::replace), "\n");
}

}  // namespace

ImportReport import_model(const std::string& source_folder, const std::string& target, const ImportOptions& options,
                          const FileWork& work) {
  const SourceFolder source = SourceFolder::open(source_folder, work);
  const std::string config_path = checked_path(source_folder, "config.json");
  const std::string config_text = data::read_file(config_path, max_config_bytes);
  const ForeignConfig config = read_config(config_text, config_path);
  const ExpertLayout layout = layout_of(source);
  const Sizes sizes(config.keys, *config.family, layout);
  const bool rotates = config.keys.text("model.position") == "rotary";
  if (rotates && (sizes.rotary() < 2 || sizes.rotary() % 2 != 0 || sizes.rotary() > sizes.head()))
    fail(ExitCode::data, config_path, ": ", sizes.rotary(), " dimensions of a head of ", sizes.head(),
         " would rotate, expected an even number from 2 to ", sizes.head());
  require_accepted(config.keys.yaml(), config_path);
  const TensorMap map = map_tensors(*config.family, sizes);
  const Weights weights(source, config, map);
  ImportReport report;
  report.model_type = config.family->model_type;
  report.notes = config.notes;
  for (std::string& note : weights.check(map)) report.notes.push_back(std::move(note));

  NewFolder folder(target);
  ParameterWriter writer(weights, map, sizes);
  const std::vector<std::vector<size_t>> shards = divided(map, writer, options.shard_bytes);
  std::vector<std::string> parts;
  for (size_t i = 0; i < shards.size(); ++i)
    parts.push_back(write_shard(folder, i, shards.size(), shards[i], map, writer, work));
  const std::string recipe = config.keys.yaml();
  const std::string manifest = io::manifest_to_json(io::merge_parts(state_of(recipe, source_folder), parts));
  io::require_readable(manifest, target + "/manifest.json");

  const std::string beside(origin_folder_name);
  folder.add_folder(beside);
  folder.add_file(beside + "/config.json", config_text);
  folder.add_file(beside + "/origin.json", origin_json(origin_of(source, weights, map, layout, config_text)));
  for (const std::string& name : companion_files(source_folder)) {
    folder.copy_file(source_folder, name, beside);
    report.files.push_back(name);
  }
  sync_folder(folder.path() + "/" + beside);
  folder.add_file("recipe.yaml", recipe_text(config, target));
  folder.add_file("manifest.json", manifest);
  folder.commit();

  for (const Link& link : map.links) {
    ++report.tensors, report.parameters += link.shape.numel();
    report.bytes += weights[link].end - weights[link].begin;
  }
  return report;
}

}  // namespace hexad::interop
