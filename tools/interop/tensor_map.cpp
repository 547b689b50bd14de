#include "tools/interop/tensor_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "tools/interop/elements.h"
#include "tools/interop/latent_rows.h"

namespace hexad::interop {

using namespace base;

namespace {

/// Calls f(word) for each word of a text.
template <class F>
void for_each_word(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (space > 0) f(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
}

std::string replaced(std::string_view pattern, std::string_view mark, int64_t number) {
  std::string text(pattern);
  if (const size_t at = text.find(mark); at != text.npos) text.replace(at, mark.size(), std::to_string(number));
  return text;
}

/// Makes a TensorMap from the tables of a family. Repeats rows whose name has {L} for each block, and rows whose name
/// has {E} for each expert.
class Mapper {
 public:
  Mapper(const Family& family, const Sizes& sizes) : family_(family), sizes_(sizes) {}

  TensorMap map() {
    for (const OwnRow& row : own_rows())
      for_each_block(row.name, row.when, [&](int64_t layer) { add_own(row, layer); });
    for (const auto& table : family_.names)
      for (const TensorRow& row : table)
        for_each_block(row.theirs, row.when, [&](int64_t layer) { add_links(row, layer); });
    require_complete();
    for (const TensorRow& row : family_.copies)
      for_each_block(row.theirs, row.when, [&](int64_t layer) { add_copy(row, layer); });
    return std::move(map_);
  }

 private:
  template <class F>
  void for_each_block(std::string_view name, std::string_view when, F&& f) const {
    const bool repeated = name.find("{L}") != name.npos;
    for (int64_t layer = 0; layer < (repeated ? sizes_.blocks() : 1); ++layer)
      if (sizes_.hold(when, layer)) f(layer);
  }

  /// Returns the name of a parameter of block `layer`, given its name in the tables.
  std::string own_name(std::string_view pattern, int64_t layer) const {
    constexpr std::string_view of_block = "layers.{L}";
    if (layer < sizes_.layers() || !pattern.starts_with(of_block)) return replaced(pattern, "{L}", layer);
    return cat("prediction.", layer - sizes_.layers(), pattern.substr(of_block.size()));
  }

  void add_own(const OwnRow& row, int64_t layer) {
    OwnTensor own{own_name(row.name, layer), row.state ? io::Kind::state : io::Kind::main, sizes_.shape(row.shape)};
    index_[own.name] = map_.own.size();
    map_.own.push_back(std::move(own));
  }

  void add_links(const TensorRow& row, int64_t layer) {
    const bool repeated = row.theirs.find("{E}") != row.theirs.npos;
    for (int64_t expert = 0; expert < (repeated ? sizes_.experts() : 1); ++expert) {
      Link link{
          replaced(replaced(row.theirs, "{L}", layer), "{E}", expert), sizes_.shape(row.shape), row.rearrangement, {}};
      for (const Target& target : row.ours) {
        if (target.name.empty()) continue;
        const bool all = target.at.starts_with('*');
        for (int64_t e = all ? 0 : expert; e < (all ? sizes_.experts() : expert + 1); ++e)
          link.parts.push_back(part_of(target, layer, e));
      }
      map_.links.push_back(std::move(link));
    }
  }

  /// Adds a copy: a foreign tensor that repeats another foreign tensor. Both tensors have a single target, which is the
  /// same parameter.
  void add_copy(const TensorRow& row, int64_t layer) {
    Link link{replaced(row.theirs, "{L}", layer), sizes_.shape(row.shape), row.rearrangement, {}};
    link.parts.push_back(part_of(row.ours[0], layer, 0));
    const auto same = [&](const Link& other) {
      return other.parts.size() == 1 && other.parts[0].own == link.parts[0].own && other.shape == link.shape;
    };
    const auto original = std::ranges::find_if(map_.links, same);
    require(original != map_.links.end(), "[interop] ", link.theirs, " is a copy, but no earlier tensor of ",
            family_.model_type, " has its shape ", link.shape,
            " and its parameter; expected the original before its copy");
    link.original = original->theirs;
    map_.copies.push_back(std::move(link));
  }

  Link::Part part_of(const Target& target, int64_t layer, int64_t expert) const {
    const std::string name = own_name(target.name, layer);
    const auto found = index_.find(name);
    require(found != index_.end(), "[interop] the tables of ", family_.model_type, " name the parameter ", name,
            ", which the model does not have; expected a parameter of the model");
    const Shape& shape = map_.own[found->second].shape;
    Link::Part part{found->second, io::whole(shape), 0};
    int dim = 0;
    for_each_word(target.at, [&](std::string_view word) {
      part.region.begin[dim] = word == "E" || word == "*" ? expert : word.front() - '0';
      part.region.size[dim] = 1;
      part.first += part.region.begin[dim] * shape.row_major_strides()[dim];
      ++dim;
    });
    return part;
  }

  /// Checks that the parts of all links cover every parameter exactly once.
  void require_complete() const {
    // For each parameter: the number of elements of each part, by the index of the part's first element.
    std::vector<std::map<int64_t, int64_t>> covered(map_.own.size());
    for (const Link& link : map_.links) {
      int64_t elements = 0;
      for (const Link::Part& part : link.parts) {
        elements += part.region.size.numel();
        const bool is_new = covered[part.own].emplace(part.first, part.region.size.numel()).second;
        require(is_new, "[interop] ", link.theirs, " and another tensor of ", family_.model_type, " begin at element ",
                part.first, " of ", map_.own[part.own].name, "; expected different parts");
      }
      require(elements == link.shape.numel(), "[interop] ", link.theirs, " has ", link.shape.numel(),
              " elements, but its parameters have ", elements, "; expected equal numbers");
    }
    for (size_t i = 0; i < map_.own.size(); ++i) {
      int64_t end = 0;
      for (const auto& [first, count] : covered[i]) end = first == end ? end + count : -1;
      require(end == map_.own[i].shape.numel(), "[interop] the tables of ", family_.model_type, " do not cover ",
              map_.own[i].name, " ", map_.own[i].shape, "; expected each element once");
    }
  }

  const Family& family_;
  const Sizes& sizes_;
  TensorMap map_;
  std::map<std::string, size_t> index_;
};

}  // namespace

Sizes::Sizes(const ModelKeys& keys, const Family& family, ExpertLayout layout)
    : keys_(keys), pairs_(family.pairs), layout_(layout) {}

Shape Link::rearranged_shape() const {
  if (rearrangement != Rearrangement::stacked_input_first) return shape;
  const int64_t experts = parts.front().region.size[0];  // the only part is a whole parameter
  return Shape{experts, shape[0] / experts, shape[1]};
}

int64_t Link::begin_of(size_t part) const {
  int64_t begin = 0;
  for (size_t i = 0; i < part; ++i) begin += parts[i].region.size.numel();
  return begin;
}

int64_t Sizes::delta_keys() const { return keys_.integer("model.delta_net.key_heads"); }

bool Sizes::is_latent() const { return keys_.text("model.attention") == "latent"; }

int64_t Sizes::rotary() const {
  if (is_latent()) return keys_.integer("model.latent.rope_size");
  return std::llround(static_cast<double>(head()) * keys_.real("model.rotary_share"));
}

std::vector<int64_t> Sizes::moved_rows(Rearrangement rearrangement, int64_t rows) const {
  const LatentRows latent{.heads = keys_.integer("model.heads"),
                          .kv_rank = keys_.integer("model.latent.kv_rank"),
                          .nope = keys_.integer("model.latent.nope_size"),
                          .rope = keys_.integer("model.latent.rope_size"),
                          .value = keys_.integer("model.latent.value_size")};
  switch (rearrangement) {
    case Rearrangement::pairs:
      return halves_of_pairs(rows / head(), head(), rotary());
    case Rearrangement::latent_queries:
      return latent.queries();
    case Rearrangement::latent_down:
      return latent.down();
    case Rearrangement::latent_up:
      return latent.up();
    case Rearrangement::gated_queries:
      return parts_of_groups(keys_.integer("model.heads"), std::array{head(), head()});
    case Rearrangement::delta_inputs:
      return parts_of_groups(delta_keys(),
                             std::array{size('F'), size('F'), size('M') / delta_keys(), size('M') / delta_keys()});
    case Rearrangement::delta_gates:
      return parts_of_groups(delta_keys(), std::array{size('O') / delta_keys(), size('O') / delta_keys()});
    case Rearrangement::none:
    case Rearrangement::transposed:
    case Rearrangement::input_first:
    case Rearrangement::interleaved:
    case Rearrangement::interleaved_and_input_first:
    case Rearrangement::stacked_input_first:
      break;
  }
  fail_invariant(cat("[interop] rearrangement ", static_cast<int>(rearrangement),
                     " does not move rows; expected a rearrangement that moves rows"));
}

int64_t Sizes::size(char letter) const {
  switch (letter) {
    case 'V':
      return keys_.integer("model.vocab");
    case 'P':
      return keys_.integer("model.context");
    case 'H':
      return keys_.integer("model.hidden");
    case 'C':
      return head();
    case 'G':
      return keys_.integer("model.heads");
    case 'Q':
      return keys_.integer("model.heads") * head();
    case 'K':
      return keys_.integer("model.kv_heads") * head();
    case 'B':
      return size('Q') + 2 * size('K');
    case 'D':
      return keys_.integer("model.mlp_hidden");
    case 'E':
      return experts();
    case 'I':
      return keys_.integer("model.moe.expert_hidden");
    case 'S':
      return keys_.shared_width();
    case 'A':
      return keys_.integer("model.latent.q_rank");
    case 'L':
      return keys_.integer("model.latent.kv_rank");
    case 'R':
      return keys_.integer("model.latent.rope_size");
    case 'T':
      return size('L') + size('R');
    case 'N':
      return keys_.integer("model.heads") * keys_.integer("model.latent.nope_size");
    case 'W':
      return keys_.integer("model.heads") * keys_.integer("model.latent.value_size");
    case 'U':
      return size('N') + size('W');
    case 'F':
      return keys_.integer("model.delta_net.key_size");
    case 'J':
      return delta_keys() * size('F');
    case 'O':
      return keys_.integer("model.delta_net.heads");
    case 'Z':
      return keys_.integer("model.delta_net.value_size");
    case 'M':
      return size('O') * size('Z');
    case 'X':
      return 2 * size('J') + size('M');
    case 'x':
      return size('X') + size('M');
    case 'Y':
      return keys_.integer("model.delta_net.conv_size");
    default:
      fail_invariant(cat("[interop] unknown size '", letter, "'; expected a letter of Sizes::size()"));
  }
}

Shape Sizes::shape(std::string_view text) const {
  std::vector<int64_t> sizes;
  for_each_word(text, [&](std::string_view word) {
    int64_t value = 1;
    if (word.front() >= '0' && word.front() <= '9') value = word.front() - '0', word.remove_prefix(1);
    for (const char letter : word) value *= size(letter);
    sizes.push_back(value);
  });
  return Shape(sizes);
}

bool Sizes::hold(std::string_view words, int64_t layer) const {
  bool all = true;
  for_each_word(words, [&](std::string_view word) { all = all && holds(word, layer); });
  return all;
}

bool Sizes::holds(std::string_view word, int64_t layer) const {
  if (word == "grouped") return !is_latent();
  if (word == "latent") return is_latent();
  if (word == "direct") return !is_latent() || size('A') == 0;
  if (word == "compressed") return is_latent() && size('A') > 0;
  if (word == "delta") return keys_.is_delta(layer);
  if (word == "attends") return !keys_.is_delta(layer);
  if (word == "attention_gate") return keys_.flag("model.attention_gate");
  if (word == "moe") return keys_.is_moe(layer);
  const bool dense = !keys_.is_moe(layer) || keys_.flag("model.moe.dense_residual");
  const bool before_attention = keys_.is_moe(layer) && keys_.text("model.moe.input") == "before_attention";
  if (word == "dense") return dense;
  if (word == "mlp_norm") return dense || !before_attention;
  if (word == "moe_norm") return before_attention;
  if (word == "further") return layer >= layers();
  if (word == "gated") return keys_.text("model.mlp") == "swiglu";
  if (word == "plain") return keys_.text("model.mlp") == "gelu";
  if (word == "bias") return keys_.flag("model.bias");
  if (word == "qkv_bias") return keys_.flag("model.qkv_bias");
  if (word == "o_bias") return keys_.flag("model.o_bias");
  if (word == "norm_bias") return keys_.text("model.norm") == "layer_norm" && keys_.flag("model.bias");
  if (word == "head_bias") return keys_.flag("model.head_bias");
  if (word == "norm_of_heads") return keys_.text("model.qk_norm") == "head";
  if (word == "norm_over_heads") return keys_.text("model.qk_norm") == "all_heads";
  if (word == "sinks") return keys_.flag("model.sinks");
  if (word == "learned") return keys_.text("model.position") == "learned";
  if (word == "untied") return !keys_.flag("model.tied_embedding");
  if (word == "tied") return keys_.flag("model.tied_embedding");
  if (word == "shared") return keys_.shared_width() > 0;
  if (word == "shared_gate") return keys_.flag("model.moe.shared_gate");
  if (word == "expert_bias") return keys_.flag("model.moe.expert_bias");
  if (word == "router_bias") return keys_.flag("model.moe.router_bias");
  if (word == "selection_bias") return keys_.flag("model.moe.selection_bias");
  if (word == "separate") return layout_ == ExpertLayout::separate;
  if (word == "fused") return layout_ == ExpertLayout::fused;
  if (word == "mxfp4") return layout_ == ExpertLayout::mxfp4;
  if (word == "plain_experts") return layout_ != ExpertLayout::mxfp4;
  if (word == "pairs") return pairs_;
  if (word == "halves") return !pairs_;
  fail_invariant(cat("[interop] unknown condition '", word, "'; expected a word of Sizes::holds()"));
}

bool is_by_expert(Rearrangement rearrangement) {
  return rearrangement == Rearrangement::input_first || rearrangement == Rearrangement::interleaved ||
         rearrangement == Rearrangement::interleaved_and_input_first ||
         rearrangement == Rearrangement::stacked_input_first;
}

void expert_to_own(std::vector<std::byte>& to, std::vector<std::byte>& from, const Link& link, int64_t bytes) {
  const Shape shape = link.rearranged_shape();
  if (link.rearrangement == Rearrangement::interleaved)
    return separate_interleaved(to.data(), from.data(), shape[1] / 2, std::ssize(from) / shape[1]);
  transpose(to.data(), from.data(), shape[1], shape[2], bytes);
  if (link.rearrangement != Rearrangement::interleaved_and_input_first) return;
  from.swap(to);
  separate_interleaved(to.data(), from.data(), shape[2] / 2, shape[1] * bytes);
}

void expert_to_foreign(std::vector<std::byte>& to, std::vector<std::byte>& from, const Link& link, int64_t bytes) {
  const Shape shape = link.rearranged_shape();
  if (link.rearrangement == Rearrangement::interleaved)
    return interleave(to.data(), from.data(), shape[1] / 2, std::ssize(from) / shape[1]);
  if (link.rearrangement == Rearrangement::interleaved_and_input_first) {
    interleave(to.data(), from.data(), shape[2] / 2, shape[1] * bytes);
    from.swap(to);
  }
  transpose(to.data(), from.data(), shape[2], shape[1], bytes);
}

TensorMap map_tensors(const Family& family, const Sizes& sizes) { return Mapper(family, sizes).map(); }

}  // namespace hexad::interop
