// Chat templates: a subset of the template language Jinja, with the settings of `transformers` (docs/data.md lists the
// subset). Templates come with models and are not trusted: limits.h bounds their size, depth, work and output.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/data/jinja/syntax.h"
#include "framework/data/jinja/text.h"
#include "framework/data/jinja/value.h"

namespace hexad::data::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

class Template {
 public:
  /// Parses a template. `path` is the name of the template in messages. Throws like parse().
  Template(std::string_view source, std::string path);

  const std::string& path() const { return path_; }
  /// Returns the text of the template with these variables. Throws Error(data) with path and line if the template
  /// raises an exception, uses a value of a wrong kind, or exceeds a limit. Also throws Error(data) if a filter, test,
  /// function or method is not supported. Thread-safe.
  Text render(const Variables& variables) const;

 private:
  std::string path_;
  std::vector<Statement> statements_;
};

}  // namespace hexad::data::jinja
