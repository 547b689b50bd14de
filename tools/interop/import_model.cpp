#include "tools/interop/import_model.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/io/safetensors_stream.h"
#include "tools/interop/foreign_model.h"
#include "tools/interop/latent_rows.h"
#include "tools/interop/new_folder.h"
#include "tools/interop/origin.h"

namespace hexad::interop {

using namespace base;

namespace {

/// A part of a parameter: part number `index` of a link.
struct Slot {
  const Link* link;
  size_t index;
};

/// Writes parameters from foreign tensors.
class ParameterWriter {
 public:
  explicit ParameterWriter(ForeignModel& model) : model_(model), slots_(model.map().own.size()) {
    for (const Link& link : model.map().links)
      for (size_t i = 0; i < link.parts.size(); ++i) slots_[link.parts[i].own].push_back({&link, i});
    for (std::vector<Slot>& slots : slots_)
      std::ranges::sort(slots, {}, [](const Slot& s) { return s.link->parts[s.index].first; });
  }

  /// Returns the dtype in which a parameter is stored: bf16 if all of its parts are bf16, otherwise f32.
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
      else if (is_by_expert(slot.link->rearrangement))
        write_by_expert(slot, target, out);
      else
        write_rearranged(slot, target, out);
  }

 private:
  Element element(const Slot& slot) const { return model_.element(*slot.link); }

  void write_in_windows(const Slot& slot, Element target, io::SafetensorsStream& out) {
    const Element type = element(slot);
    const int64_t part = slot.link->parts[slot.index].region.size.numel();
    const int64_t begin = slot.link->begin_of(slot.index), most = buffer_bytes / bytes_of(type);
    for (int64_t done = 0; done < part;) {
      const int64_t count = std::min(most, part - done);
      from_.resize(count * bytes_of(type));
      model_.read(*slot.link, begin + done, count, from_.data());
      append(slot, from_.data(), count, begin + done, target, out);
      done += count;
    }
  }

  void write_rearranged(const Slot& slot, Element target, io::SafetensorsStream& out) {
    const Link& link = *slot.link;
    const Element type = element(slot);
    const int64_t elements = link.shape.numel(), bytes = bytes_of(type);
    from_.resize(elements * bytes), whole_.resize(elements * bytes);
    model_.read(link, 0, elements, from_.data());
    if (link.rearrangement == Rearrangement::transposed) {
      transpose(whole_.data(), from_.data(), link.shape[0], link.shape[1], bytes);
    } else {
      const std::vector<int64_t> order = model_.sizes().moved_rows(link.rearrangement, link.shape[0]);
      gather_rows(whole_.data(), from_.data(), order, elements / link.shape[0] * bytes);
    }
    const int64_t part = link.parts[slot.index].region.size.numel(), begin = link.begin_of(slot.index);
    append(slot, whole_.data() + begin * bytes, part, begin, target, out);
  }

  /// Appends the parameter that is the only part of a foreign tensor. Reads one expert at a time.
  void write_by_expert(const Slot& slot, Element target, io::SafetensorsStream& out) {
    const Link& link = *slot.link;
    const Element type = element(slot);
    const int64_t bytes = bytes_of(type), experts = link.rearranged_shape()[0], elements = link.shape.numel() / experts;
    from_.resize(elements * bytes), whole_.resize(elements * bytes);
    for (int64_t e = 0; e < experts; ++e) {
      model_.read(link, e * elements, elements, from_.data());
      expert_to_own(whole_, from_, link, bytes);
      append(slot, whole_.data(), elements, e * elements, target, out);
    }
  }

  /// Converts and appends elements of a foreign tensor, starting at element `first`.
  void append(const Slot& slot, const std::byte* elements, int64_t count, int64_t first, Element target,
              io::SafetensorsStream& out) {
    const Element type = element(slot);
    if (const int64_t bad = first_non_finite(elements, type, count); bad >= 0)
      fail(ExitCode::data, model_.where(*slot.link), " has NaN or infinity at element ", first + bad,
           ", expected finite weights");
    if (type == target) return out.append(elements, count * bytes_of(type));
    converted_.resize(count * bytes_of(target));
    convert(converted_.data(), target, elements, type, count);
    out.append(converted_.data(), count * bytes_of(target));
  }

  ForeignModel& model_;
  std::vector<std::vector<Slot>> slots_;  // by parameter; slots are in the order of their elements
  std::vector<std::byte> from_, whole_, converted_;
};

/// Divides parameters into shards of at most `most` bytes. A larger parameter gets a shard for itself.
std::vector<std::vector<size_t>> divided_parameters(const TensorMap& map, const ParameterWriter& writer, int64_t most) {
  std::vector<std::vector<size_t>> shards(1);
  int64_t bytes = 0;
  for (size_t i = 0; i < map.own.size(); ++i) {
    const int64_t more = map.own[i].shape.numel() * size_of(writer.dtype_of(i));
    if (!shards.back().empty() && bytes + more > most) shards.emplace_back(), bytes = 0;
    shards.back().push_back(i), bytes += more;
  }
  return shards;
}

std::string write_checkpoint_shard(const NewFolder& folder, size_t index, size_t count, std::vector<size_t> members,
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
  run.layout = io::Json(cat(imported_from, source)).dump(-1, ' ', true, io::Json::error_handler_t::replace);
  return run;
}

Origin origin_of(const ForeignModel& model) {
  Origin origin{
      model.folder(), model.config_text(), model.experts(), std::nullopt, {}, stamps_of(model.folder(), model.files())};
  std::map<Element, int64_t> counts;
  for (const Link& link : model.map().links) ++counts[model.element(link)];
  origin.element = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
  for (const Link& link : model.map().links)
    if (const Element element = model.element(link); element != *origin.element)
      origin.exceptions[link.theirs] = element;
  return origin;
}

std::string recipe_text(const ForeignConfig& config, const std::string& target) {
  return cat("# A ", config.family->model_type, " model, imported. Add data.dataset, batch and optim to train it.\n",
             config.keys.yaml(),
             "train:\n  init_from: ", io::Json(target).dump(-1, ' ', false, io::Json::error_handler_t::replace), "\n");
}

}  // namespace

ImportReport import_model(const std::string& source, const std::string& target, const ImportOptions& options,
                          const FileWork& work) {
  ForeignModel model(source, options.text_only ? OtherParts::left_out : OtherParts::refused, work);
  // The text is made before the weights are read, so that a later change of a file is noticed.
  const std::string origin = origin_json(origin_of(model));
  const std::vector<std::string> companions = companion_files(source);
  NewFolder folder(target, work);
  ParameterWriter writer(model);
  const std::vector<std::vector<size_t>> shards = divided_parameters(model.map(), writer, options.shard_bytes);
  std::vector<std::string> parts;
  for (size_t i = 0; i < shards.size(); ++i)
    parts.push_back(write_checkpoint_shard(folder, i, shards.size(), shards[i], model.map(), writer, work));
  const io::RunState run = state_of(model.config().keys.yaml(), source);
  const std::string manifest = io::manifest_to_json(io::merge_parts(run, parts));
  io::require_readable(manifest, target + "/manifest.json");

  ImportReport report;
  report.model_type = model.config().family->model_type;
  report.notes = model.notes();
  const std::string beside(origin_folder_name);
  folder.add_folder(beside);
  folder.add_file(beside + "/config.json", model.config_text());
  folder.add_file(beside + "/origin.json", origin);
  for (const std::string& name : companions) folder.copy_file(source, name, beside);
  report.files = companions;
  if (const std::vector<std::string> others = uncopied_files(source); !others.empty())
    report.notes.push_back(listed("not copied: file", others));
  sync_folder(folder.path() + "/" + beside);
  folder.add_file("recipe.yaml", recipe_text(model.config(), target));
  folder.add_file("manifest.json", manifest);
  folder.commit();

  for (const Link& link : model.map().links) {
    ++report.tensors, report.parameters += link.shape.numel();
    report.bytes += model.tensor(link).end - model.tensor(link).begin;
  }
  return report;
}

}  // namespace hexad::interop
