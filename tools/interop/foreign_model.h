// A model in a folder of the Hugging Face library. Its config and its tensors have been checked against each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/config_json.h"
#include "tools/interop/source_folder.h"
#include "tools/interop/tensor_map.h"

namespace hexad::interop {

/// Bytes of a buffer through which tensors are read and compared.
inline constexpr int64_t buffer_bytes = 8 << 20;

/// Treatment of tensors outside the text model, such as tensors of a vision encoder.
enum class OtherParts : uint8_t { refused, left_out };

class ForeignModel {
 public:
  /// Opens a folder and reads config.json and the headers of the shards. Reads only the text model of a larger model
  /// (Family::larger). Throws Error(data) if a tensor is missing, is unknown, is refused, or has another shape or type
  /// than config.json and the family require. The message names the file and the key or tensor.
  explicit ForeignModel(const std::string& folder, OtherParts others = OtherParts::refused, const FileWork& work = {});
  ForeignModel(const ForeignModel&) = delete;

  const std::string& folder() const { return source_.folder(); }
  const std::vector<std::string>& files() const { return source_.files(); }
  const ForeignConfig& config() const { return config_; }
  /// Returns the text of config.json. For a folder of a larger model, returns the config.json of its text model.
  const std::string& config_text() const { return config_text_; }
  /// Returns the layout of the experts in an export of this model.
  ExpertLayout experts() const { return quantized_ ? ExpertLayout::fused : layout_; }
  const Sizes& sizes() const { return sizes_; }
  const TensorMap& map() const { return map_; }
  /// Returns notes for the user, such as keys and tensors that are not imported.
  const std::vector<std::string>& notes() const { return notes_; }

  const SourceTensor& tensor(const Link& link) const { return *source_.find(name_of(link)); }
  /// Returns the type of the elements that read() writes: bf16 for weights in fp8 blocks and in MXFP4.
  Element element(const Link& link) const;
  /// Reads `count` elements of a tensor, from element `first` on. For a tensor in MXFP4, both numbers must be multiples
  /// of mxfp4::block. Keeps the scales of the latest tensor in fp8.
  void read(const Link& link, int64_t first, int64_t count, std::byte* to);
  /// Returns a text such as "DIR/model.safetensors: tensor 'lm_head.weight'".
  std::string where(const Link& link) const;

 private:
  std::string name_of(const Link& link) const { return stored_name(link.theirs); }
  std::string stored_name(const std::string& name) const;
  void find_names();
  void check_config() const;
  void check_names();
  void check_other_parts(const std::vector<std::string>& names);
  void check_tensor(const Link& link) const;
  bool has_copy(const Link& copy) const;
  void check_scales(const Link& link) const;
  const std::vector<float>& fp8_scales(const Link& link);
  void check_mxfp4(const Link& link) const;
  bool is_mxfp4(const Link& link) const;
  const SourceTensor& mxfp4_scales_of(const Link& link) const;
  void read_mxfp4(const Link& link, int64_t first, int64_t count, std::byte* to) const;
  void note_quantised();
  bool is_ignored(const std::string& name) const;
  bool is_tied_head(const std::string& name) const;

  /// Names of the tensors in the folder, compared with the names in the family's tables. Some folders omit the first
  /// word of each name. In a folder of a larger model, the prefix of the text model is either before the whole name or
  /// after the first word.
  enum class Names : uint8_t { of_family, without_first_word, in_language_model, in_model_language_model };

  SourceFolder source_;
  OtherParts others_;
  std::string config_path_, whole_config_, config_text_;
  ForeignConfig config_;
  ExpertLayout layout_;
  bool quantized_;
  Sizes sizes_;
  TensorMap map_;
  Names names_ = Names::of_family;
  std::vector<std::string> notes_;
  struct Scales {
    std::string name;
    std::vector<float> values;
  };
  Scales scales_;  // scales of the tensor in fp8 that read() read last
};

}  // namespace hexad::interop
