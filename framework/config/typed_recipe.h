// Typed recipes. A recipe is a plain struct that describes its keys once, next to its members:
//
//   enum class RouterScore { softmax, sigmoid };
//   constexpr auto enum_names(RouterScore) {
//     return std::to_array<std::pair<RouterScore, std::string_view>>(
//         {{RouterScore::softmax, "softmax"}, {RouterScore::sigmoid, "sigmoid"}});
//   }
//
//   struct MoeConfig {
//     int64_t experts = 0;
//     RouterScore score = RouterScore::softmax;
//     std::optional<double> capacity_factor;
//
//     template <class V> void fields(V& v) {
//       v("experts", experts, "routed experts of a layer", config::at_least(0));
//       v("score", score, "function that converts router logits to weights");
//       v("capacity_factor", capacity_factor, "maximum tokens per expert / mean; none: no limit", config::positive());
//     }
//   };
//
// The example needs only the header constraints.h of this library. The program then reads and checks a recipe:
//
//   Problems problems;
//   Recipe recipe = read<Recipe>(load(path, overrides), problems);
//   if (problems.good({"model.moe.experts", "parallel.ep"}) && recipe.model.moe.experts % recipe.parallel.ep != 0)
//     problems.add("model.moe.experts",
//                  cat("must be divisible by parallel.ep; nearest: ",
//                      nearest_multiples(recipe.model.moe.experts, recipe.parallel.ep)));
//   problems.throw_if_any();
//
// Members are bool, integers, ByteSize, double, std::string, enums, Curve, nested structs, and std::optional or
// std::vector of these, except std::vector<bool>. A key that is not written keeps the member's initial value. Initial
// values are checked too. Every recipe must write a key whose initial value breaks the constraints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/philox.h"
#include "framework/config/document.h"
#include "framework/config/problems.h"
#include "framework/config/type.h"

namespace hexad::config {

/// A recipe key and its value, for example "optim.lr" and "0.01".
struct Setting {
  std::string path, value;
};

/// The words that a key accepts, for shell completion.
struct KeyWords {
  std::string path;                // key, such as "model.moe.score"
  std::vector<std::string> words;  // names of an enumeration, true and false, and the word for an optional that is not
                                   // set
};

void read(const Document& document, void* value, const Type& type, Problems& problems);
std::string write(void* value, const Type& type);
std::string reference(void* value, const Type& type);
std::vector<std::string> differences(void* before, void* after, const Type& type);
std::vector<Setting> settings(void* value, const Type& type);
std::vector<KeyWords> words_of_keys(void* value, const Type& type);

/// Reads a struct from `document`. Reports unknown keys, values that cannot be read, and values outside their limits to
/// `problems`. The value of a key with a problem must not be used.
template <class T>
T read(const Document& document, Problems& problems) {
  T value{};
  read(document, &value, type_of<T>, problems);
  return value;
}

/// Returns the whole struct as YAML, including defaults. Reading this text results in an equal struct, in which doubles
/// are bitwise identical.
template <class T>
std::string write(T value) {
  return write(&value, type_of<T>);
}

/// Returns a hash of the text of write(). The hash is the same in every process.
template <class T>
uint64_t fingerprint(T value) {
  return base::stable_hash(write(&value, type_of<T>));
}

/// Returns Markdown: for each section that has keys, a table with key, type, default, legal values and meaning.
template <class T>
std::string reference() {
  T value{};
  return reference(&value, type_of<T>);
}

/// Returns a text like "model.hidden: 512 -> 1024" for each key that differs, in the order of the struct. The value is
/// "absent" for a struct that does not have the key (in a list of sections or an optional section). Keys that occur
/// only in `after` come last.
template <class T>
std::vector<std::string> differences(T before, T after) {
  return differences(&before, &after, type_of<T>);
}

/// Returns the settings in the order of the struct. A list of sections has one entry for each key of each element; any
/// other list is a single value.
template <class T>
std::vector<Setting> settings(T value) {
  return settings(&value, type_of<T>);
}

/// Returns the keys of a struct that accept words, in the order of the struct. Lists and the keys of optional
/// sections are omitted.
template <class T>
std::vector<KeyWords> words_of_keys() {
  T value{};
  return words_of_keys(&value, type_of<T>);
}

}  // namespace hexad::config
