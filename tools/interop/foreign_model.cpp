#include "tools/interop/foreign_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include "framework/base/counted.h"
#include "framework/config/typed_recipe.h"
#include "framework/config/words.h"
#include "framework/data/file.h"
#include "layers/base/model_config.h"
#include "tools/interop/fp8_blocks.h"
#include "tools/interop/mxfp4.h"
#include "tools/interop/size_checks.h"
#include "tools/interop/text_part.h"

namespace hexad::interop {

using namespace base;

namespace {

constexpr std::string_view blocks_suffix = "_blocks", scales_suffix = "_scales", head_name = "lm_head.weight";

/// True if `name` matches `pattern`, in which * matches any text.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1), name.remove_prefix(star);
  for (size_t at = 0; at <= name.size(); ++at)
    if (matches(pattern, name.substr(at))) return true;
  return false;
}

bool matches_any(std::span<const std::string_view> patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](std::string_view pattern) { return matches(pattern, name); });
}

std::string without_first_word(const std::string& name) { return name.substr(name.find('.') + 1); }

std::string mxfp4_scales_name(const std::string& blocks) {
  return blocks.substr(0, blocks.size() - blocks_suffix.size()) + std::string(scales_suffix);
}

bool equal(const SourceTensor& a, const SourceTensor& b) {
  std::vector<std::byte> left(buffer_bytes), right(buffer_bytes);
  for (int64_t at = 0, bytes = a.end - a.begin; at < bytes; at += buffer_bytes) {
    const int64_t count = std::min(buffer_bytes, bytes - at);
    a.read(at, left.data(), count), b.read(at, right.data(), count);
    if (!std::equal(left.begin(), left.begin() + count, right.begin())) return false;
  }
  return true;
}

bool has_suffix(const SourceFolder& source, std::string_view suffix) {
  return std::ranges::any_of(source.tensors(),
                             [&](const auto& t) { return std::string_view(t.first).ends_with(suffix); });
}

ExpertLayout layout_of(const SourceFolder& source, const Family& family) {
  if (family.mxfp4 && has_suffix(source, std::string(".mlp.experts.gate_up_proj") + std::string(blocks_suffix)))
    return ExpertLayout::mxfp4;
  return has_suffix(source, ".mlp.experts.gate_up_proj") ? ExpertLayout::fused : ExpertLayout::separate;
}

/// Returns `config` without prediction blocks if none is stored. Some programs do not read prediction blocks: they save
/// a model without these blocks, but keep their number in config.json.
ForeignConfig stored_config(ForeignConfig config, const SourceFolder& source, const std::string& where) {
  const int64_t blocks = config.keys.integer("model.prediction_blocks");
  const std::string bare = cat("layers.", config.keys.integer("model.layers"), "."), first = cat("model.", bare);
  const auto is_of_first = [&](const auto& tensor) {
    return tensor.first.starts_with(first) || tensor.first.starts_with(bare);
  };
  if (blocks == 0 || std::ranges::any_of(source.tensors(), is_of_first)) return config;
  config.keys.set("model.prediction_blocks", 0, where);
  config.notes.push_back(
      cat(config.prediction_key, " (", blocks, ") is not imported, because no tensor name begins with '", first, "'"));
  return config;
}

/// The part of a recipe that an import writes: the section `model`.
struct ModelSection {
  layers::ModelConfig model;

  template <class V>
  void fields(V& v) {
    v("model", model, "the model");
  }
};

/// Returns the end of a message: the config keys from which the recipe keys in `message` come.
std::string origins_of(std::string_view message, const Family& family) {
  std::string text;
  for (const auto& table : family.keys)
    for (const ConfigKey& key : table)
      if (message.find(cat(key.recipe, " ")) != message.npos)
        text += cat("; ", config_keys_of(family, key.recipe), " gives ", key.recipe);
  return text;
}

/// Throws Error(data) if the recipe is not accepted.
void require_accepted(const std::string& recipe, const Family& family, const std::string& where) {
  try {
    config::Problems problems;
    config::read<ModelSection>(config::parse(recipe, "recipe.yaml"), problems);
    problems.throw_if_any();
  } catch (const Error& error) {
    fail(ExitCode::data, where, ": describes a model that Hexad does not accept: ", error.what(),
         origins_of(error.what(), family));
  }
}

}  // namespace

ForeignModel::ForeignModel(const std::string& folder, OtherParts others, const FileWork& work)
    : source_(SourceFolder::open(folder, work)),
      others_(others),
      config_path_(checked_path(folder, "config.json")),
      whole_config_(data::read_file(config_path_, max_config_bytes)),
      config_text_(text_part(whole_config_, config_path_)),
      config_(stored_config(read_config(config_text_, config_path_), source_, config_path_)),
      layout_(layout_of(source_, *config_.family)),
      quantized_(layout_ == ExpertLayout::mxfp4),
      sizes_(config_.keys, *config_.family, layout_),
      map_((check_config(), map_tensors(*config_.family, sizes_))),
      notes_(config_.notes) {
  find_names();
  check_names();
  for (const Link& link : map_.links) check_tensor(link);
  note_quantised();
}

// Sets names_, the form of the tensor names, to the form under which the embedding is stored.
void ForeignModel::find_names() {
  const Family& family = *config_.family;
  const bool is_part = config_text_ != whole_config_;
  if (is_part)
    notes_.push_back(cat("config.json describes a ", family.larger, " model; its text model, ", family.model_type,
                         ", is imported, and an export will be a ", family.model_type, " model"));
  std::vector<Names> forms{Names::of_family, Names::without_first_word};
  if (!family.larger.empty()) forms.insert(forms.end(), {Names::in_language_model, Names::in_model_language_model});
  for (const Names form : forms) {
    names_ = form;
    if (source_.find(name_of(map_.links.front()))) return;
  }
  names_ = is_part ? Names::in_language_model : Names::of_family;  // check_names() reports the missing tensors
}

bool ForeignModel::is_mxfp4(const Link& link) const { return quantized_ && link.theirs.ends_with(blocks_suffix); }

const SourceTensor& ForeignModel::mxfp4_scales_of(const Link& link) const {
  return *source_.find(mxfp4_scales_name(name_of(link)));
}

// Returns the name that a tensor of the family has in this folder.
std::string ForeignModel::stored_name(const std::string& name) const {
  constexpr std::string_view language_model = "language_model.", model = "model.";
  switch (names_) {
    case Names::of_family:
      break;
    case Names::without_first_word:
      return name == head_name ? name : without_first_word(name);
    case Names::in_language_model:
      return cat(language_model, name);
    case Names::in_model_language_model:
      return name.starts_with(model) ? cat(model, language_model, name.substr(model.size())) : name;
  }
  return name;
}

std::string ForeignModel::where(const Link& link) const {
  return cat(source_.folder(), "/", tensor(link).file, ": tensor '", name_of(link), "'");
}

Element ForeignModel::element(const Link& link) const {
  const SourceTensor& stored = tensor(link);
  return is_mxfp4(link) || stored.dtype == fp8_dtype ? Element::bf16 : *element_of(stored.dtype);
}

void ForeignModel::read(const Link& link, int64_t first, int64_t count, std::byte* to) {
  if (is_mxfp4(link)) return read_mxfp4(link, first, count, to);
  const SourceTensor& stored = tensor(link);
  if (stored.dtype != fp8_dtype) {
    const int64_t bytes = bytes_of(element(link));
    return stored.read(first * bytes, to, count * bytes);
  }
  std::vector<std::byte> codes(count);
  stored.read(first, codes.data(), count);
  dequantise(to, codes, fp8_scales(link), first, link.shape[1]);
}

// Returns the scales of a link in fp8. Reads them only when the link changes, because callers read the elements of a
// link in several calls of read().
const std::vector<float>& ForeignModel::fp8_scales(const Link& link) {
  std::string name = scales_of(name_of(link));
  if (scales_.name == name) return scales_.values;
  const SourceTensor& stored = *source_.find(name);
  const int64_t count = stored.shape.numel();
  std::vector<std::byte> bytes(stored.end - stored.begin);
  stored.read(0, bytes.data(), stored.end - stored.begin);
  scales_.values.resize(count);
  convert(reinterpret_cast<std::byte*>(scales_.values.data()), Element::f32, bytes.data(), *element_of(stored.dtype),
          count);
  scales_.name = std::move(name);
  return scales_.values;
}

void ForeignModel::read_mxfp4(const Link& link, int64_t first, int64_t count, std::byte* to) const {
  require(first % mxfp4::block == 0 && count % mxfp4::block == 0, "[interop] ", count, " elements from ", first,
          " are not whole MXFP4 blocks; expected multiples of ", mxfp4::block);
  const int64_t block = first / mxfp4::block, blocks = count / mxfp4::block;
  std::vector<std::byte> packed(blocks * mxfp4::block_bytes), scales(blocks);
  tensor(link).read(block * mxfp4::block_bytes, packed.data(), blocks * mxfp4::block_bytes);
  mxfp4_scales_of(link).read(block, scales.data(), blocks);
  mxfp4::to_bf16(to, packed.data(), scales.data(), blocks);
}

void ForeignModel::note_quantised() {
  const int64_t weights =
      std::ranges::count_if(map_.links, [&](const Link& l) { return tensor(l).dtype == fp8_dtype; });
  if (weights > 0)
    notes_.push_back(cat("weights in fp8 blocks were dequantised to bf16: ", counted(weights, "tensor")));
  if (quantized_)
    notes_.emplace_back("experts in MXFP4 were converted to bf16, with the same values; an export will have bf16");
}

// Checks the conditions on config.json that the tensor tables assume.
void ForeignModel::check_config() const {
  require_accepted(config_.keys.yaml(), *config_.family, config_path_);
  if (config_.keys.text("model.position") != "rotary") return;
  const int64_t head = sizes_.head(), rotary = sizes_.rotary();
  constexpr double rounding = 1e-3;  // tolerance in dimensions
  const bool latent = config_.keys.text("model.attention") == "latent";
  const double share = config_.keys.real("model.rotary_share");
  const double turned = latent ? static_cast<double>(rotary) : share * static_cast<double>(head);
  if (rotary < 2 || rotary % 2 != 0 || rotary > head || std::abs(turned - static_cast<double>(rotary)) > rounding)
    fail(ExitCode::data, config_path_, ": ", turned, " of a head's ", head,
         " dimensions would rotate, expected an even number from 2 to ", head);
  if (config_.keys.text("model.rotary_scaling.kind") != "longrope") return;
  for (const char* list : {"short_factor", "long_factor"}) {
    const auto size = static_cast<int64_t>(config_.keys[cat("model.rotary_scaling.", list, "s")].size());
    if (size != rotary / 2)
      fail(ExitCode::data, config_path_, ": rotary ", list, " has ", size, " numbers, expected ", rotary / 2,
           ", half of the ", rotary, " dimensions of a head that rotate");
  }
}

// Checks that the folder has all tensors of the model, and that all other tensors in the folder may be ignored.
void ForeignModel::check_names() {
  std::set<std::string> expected;
  std::vector<std::string> missing, unknown;
  for (const Link& link : map_.links) {
    const std::string name = name_of(link);
    expected.insert(name);
    const SourceTensor* found = source_.find(name);
    if (!found) missing.push_back(name);
    if (found && found->dtype == fp8_dtype) expected.insert(scales_of(name));
    if (!is_mxfp4(link)) continue;
    const std::string scales = mxfp4_scales_name(name);
    expected.insert(scales);
    if (!source_.find(scales)) missing.push_back(scales);
  }
  if (missing.empty())
    for (const Link& copy : map_.copies)
      if (has_copy(copy)) expected.insert(name_of(copy));
  std::vector<std::string> unread, others;
  for (const auto& [name, tensor] : source_.tensors()) {
    if (expected.contains(name)) continue;
    if (is_ignored(name) || is_tied_head(name))
      unread.push_back(name);
    else if (matches_any(config_.family->other_parts, name))
      others.push_back(name);
    else
      unknown.push_back(name);
  }
  if (!missing.empty())
    fail(ExitCode::data, folder(), ": ", listed("missing tensor", missing),
         "; expected every tensor of the model in config.json; copy all weight files of the "
         "model, or correct config.json");
  if (!unknown.empty())
    fail(ExitCode::data, folder(), ": ", listed("unknown tensor", unknown), "; no parameter of a ",
         config_.family->model_type, " model has ", unknown.size() == 1 ? "this name" : "these names");
  if (!others.empty()) check_other_parts(others);
  if (!unread.empty())
    notes_.push_back(
        cat(listed("tensor", unread), unread.size() == 1 ? " was" : " were",
            " not read, because masks, rotary frequencies, prediction layers and copies of a tied head are not "
            "imported; an export will not have ",
            unread.size() == 1 ? "it" : "them"));
}

// Refuses tensors outside the text model, or notes that they are left out.
void ForeignModel::check_other_parts(const std::vector<std::string>& names) {
  const std::string all =
      cat(counted(std::ssize(names), "tensor"), " outside the text model (", listed("tensor", names), ")");
  if (others_ == OtherParts::refused)
    fail(ExitCode::data, folder(), ": has ", all,
         ", expected only the text model; `hexad import --text-only` imports the text model without them");
  notes_.push_back(cat(all, " ", names.size() == 1 ? "was" : "were", " left out; an export will not have ",
                       names.size() == 1 ? "it" : "them"));
}

// True if the copy is stored. Throws Error(data) if the copy differs from its original, which must be stored.
bool ForeignModel::has_copy(const Link& copy) const {
  const SourceTensor *stored = source_.find(name_of(copy)), *original = source_.find(stored_name(copy.original));
  if (!stored) return false;
  if (stored->dtype == original->dtype && stored->shape == original->shape && equal(*stored, *original)) return true;
  fail(ExitCode::data, folder(), "/", stored->file, ": tensor '", name_of(copy), "' differs from '",
       stored_name(copy.original),
       "'; expected equal tensors, because prediction blocks share the embedding and the head of the model");
}

void ForeignModel::check_tensor(const Link& link) const {
  if (is_mxfp4(link)) return check_mxfp4(link);
  const SourceTensor& found = tensor(link);
  if (!(found.shape == link.shape))
    fail(ExitCode::data, where(link), " is ", found.shape, ", expected ", link.shape, " by config.json");
  if (found.dtype == fp8_dtype && config_.fp8_blocks) return check_scales(link);
  if (!element_of(found.dtype)) fail(ExitCode::data, where(link), " is ", found.dtype, ", expected F32, BF16 or F16");
}

void ForeignModel::check_scales(const Link& link) const {
  const std::string name = scales_of(name_of(link));
  const SourceTensor* scales = source_.find(name);
  if (link.shape.rank() != 2)
    fail(ExitCode::data, where(link), " is fp8 and has shape ", link.shape, ", expected a matrix");
  if (!scales)
    fail(ExitCode::data, where(link), " is fp8, but the tensor of its scales, '", name,
         "', is missing; expected this tensor in the same folder");
  const Shape expected = shape_of_scales(link.shape);
  if (!element_of(scales->dtype) || !(scales->shape == expected))
    fail(ExitCode::data, folder(), "/", scales->file, ": tensor '", name, "' is ", scales->dtype, " ", scales->shape,
         ", expected F32, BF16 or F16 ", expected);
}

// Checks the two tensors of a matrix in MXFP4: blocks [E, outputs, inputs / 32, 16] and scales [E, outputs, inputs /
// 32].
void ForeignModel::check_mxfp4(const Link& link) const {
  const Shape& matrix = link.shape;
  if (matrix[2] % mxfp4::block != 0)
    fail(ExitCode::data, where(link), " is in MXFP4, but its matrices have ", matrix[2],
         " inputs by config.json, expected a multiple of ", mxfp4::block);
  const Shape scales{matrix[0], matrix[1], matrix[2] / mxfp4::block},
      blocks{matrix[0], matrix[1], matrix[2] / mxfp4::block, mxfp4::block_bytes};
  const auto check = [&](const SourceTensor& found, const Shape& expected, std::string_view what) {
    if (found.dtype != "U8" || !(found.shape == expected))
      fail(ExitCode::data, where(link), " is in MXFP4: its ", what, " are ", found.dtype, " ", found.shape,
           ", expected U8 ", expected, " by config.json");
  };
  check(tensor(link), blocks, "blocks");
  check(mxfp4_scales_of(link), scales, "scales");
}

bool ForeignModel::is_ignored(const std::string& name) const {
  if (matches("*rotary_emb.inv_freq", name)) return true;
  return std::ranges::any_of(config_.family->ignored, [&](std::string_view pattern) {
    const size_t at = pattern.find("{N}");
    if (at == pattern.npos) return matches(pattern, name);
    bool found = false;
    for (int64_t i = 0; i < config_.prediction_blocks && !found; ++i)
      found = matches(std::string(pattern).replace(at, 3, cat(sizes_.layers() + i)), name);
    return found;
  });
}

// True for a stored head that equals the embedding to which it is tied. Throws Error(data) if the two tensors differ.
bool ForeignModel::is_tied_head(const std::string& name) const {
  if (name != stored_name(std::string(head_name)) || !config_.keys.flag("model.tied_embedding")) return false;
  const Link& embedding = map_.links.front();  // the first row of every table is the embedding
  const SourceTensor* tied = source_.find(name_of(embedding));
  if (!tied) return true;  // check_names() reports the embedding as missing
  const SourceTensor& head = *source_.find(name);
  if (tied->dtype == head.dtype && tied->shape == head.shape && equal(head, *tied)) return true;
  fail(ExitCode::data, folder(), "/", head.file, ": tensor '", name, "' differs from '", name_of(embedding),
       "', but tie_word_embeddings in config.json is true; set it to false");
}

}  // namespace hexad::interop
