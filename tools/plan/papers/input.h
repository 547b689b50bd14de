// Common functions for the inputs of the papers' formulas: reading, checking, and listing keys.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "framework/config/typed_recipe.h"

namespace hexad::plan {

using Json = nlohmann::ordered_json;

/// Reads an input, checks its keys against each other with check(input, problems), and returns the JSON text of
/// report(input). Both functions are declared next to the input's struct. check() may receive invalid keys, so it tests
/// problems.good() first.
template <class Input>
std::string evaluate(const config::Document& document) {
  config::Problems problems;
  const Input input = config::read<Input>(document, problems);
  check(input, problems);
  problems.throw_if_any();
  return report(input).dump(2);
}

/// These functions return one line for each key of an input (Paper::keys). The first function can change `input`, which
/// must have its default values.
std::string list_keys(void* input, const config::Type& type);

template <class Input>
std::string list_keys() {
  Input input{};
  return list_keys(&input, config::type_of<Input>);
}

/// Adds a problem for each of `paths` that the input contains. `why` is the text of the problem, such as "has no effect
/// if I is given".
void refuse_written(config::Problems& problems, std::initializer_list<std::string_view> paths, std::string_view why);

/// Adds a problem if a volume or size of the curve is not above 0.
void check_sizes(config::Problems& problems, std::string_view path, const config::Curve& curve);

}  // namespace hexad::plan
