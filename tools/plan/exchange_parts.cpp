#include "tools/plan/exchange_parts.h"

#include <algorithm>
#include <limits>

#include "framework/base/error.h"

namespace hexad::plan {

using schedule::TaskKind;
using schedule::Timeline;

ExchangeParts exchange_parts(const Timeline& forward) {
  double begin = std::numeric_limits<double>::infinity(), end = 0;
  for (const Timeline::Span& span : forward.spans)
    if (span.task.kind == TaskKind::compute) begin = std::min(begin, span.begin), end = std::max(end, span.end);
  base::require(end >= begin, "[plan] the forward pass of ", forward.spans.size(),
                " tasks computes nothing; expected tasks of experts");
  ExchangeParts parts;
  for (const Timeline::Span& span : forward.spans) {
    if (span.task.kind == TaskKind::compute) continue;
    if (span.begin < begin) parts.dispatch.spans.push_back({span.task, span.begin, std::min(span.end, begin)});
    if (span.end > end) parts.combine.spans.push_back({span.task, std::max(span.begin - end, 0.0), span.end - end});
  }
  return parts;
}

}  // namespace hexad::plan
