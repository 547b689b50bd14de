#include "framework/base/counted.h"
#include "parallel/tp/split_vocabulary.h"

namespace hexad::tp {

using namespace base;

VocabularyPart vocabulary_part(std::string_view op, const Parameter& table, const ProcessGroup& group) {
  const int64_t vocabulary = table.global_shape()[0];
  require(group.size() <= vocabulary, "[", op, "] ", table.name(), " has ", counted(vocabulary, "row"), " for the ",
          group.size(), " ranks of ", group.name(), "; expected at least one row per rank");
  const Shard expected{Axis::tp, 0, group.size(), group.rank()};
  const auto [begin, size] = table.region();
  require(begin[0] == expected.begin(vocabulary) && begin[0] + size[0] == expected.end(vocabulary), "[", op, "] rank ",
          group.rank(), " of ", group.size(), " holds rows ", begin[0], " .. ", begin[0] + size[0] - 1, " of ",
          table.name(), "; expected ", expected.begin(vocabulary), " .. ", expected.end(vocabulary) - 1);
  return {begin[0], begin[0] + size[0]};
}

}  // namespace hexad::tp
