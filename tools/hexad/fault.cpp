#include "tools/hexad/fault.h"

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

namespace hexad::app {
namespace {

struct Fault {
  std::string kind;
  int64_t rank = 0, step = 0;
  std::string point;
};

std::optional<Fault> fault_from_environment() {
  const char* text = std::getenv("HEXAD_FAULT");
  if (!text || !*text) return {};
  Fault f;
  std::istringstream in(text);
  char comma = 0;
  std::getline(in, f.kind, '@');
  in >> f.rank >> comma >> f.step;
  if (!in || comma != ',' || (f.kind != "kill" && f.kind != "abort" && f.kind != "nan" && f.kind != "full"))
    fail(ExitCode::usage, "HEXAD_FAULT is '", text, "'; expected kill|abort|nan|full@rank,step[,point]");
  if (in.get() == ',') std::getline(in, f.point);
  return f;
}

// In the last parameter, on which the loss of every token depends.
void ruin_a_weight(ModelInstance& instance) {
  Parameter& p = **std::prev(instance.parameters.end());
  kernels::kernels(instance.device())
      .pointwise.fill(instance.context.compute(), p.local().slice(0, 0, 1), std::numeric_limits<double>::quiet_NaN());
  p.changed();
}

}  // namespace

void inject_fault(int rank, int64_t step, ModelInstance& instance) {
  const auto f = fault_from_environment();
  if (!f || f->rank != rank || f->step != step || (!f->point.empty() && f->point != "step")) return;
  if (f->kind == "kill") std::raise(SIGKILL);
  if (f->kind == "abort") std::abort();
  if (f->kind == "nan") ruin_a_weight(instance);
}

io::FaultHook save_fault_from_environment(int rank) {
  const auto f = fault_from_environment();
  if (!f || f->rank != rank || f->point.empty() || f->point == "step") return {};
  return [f = *f](std::string_view point) {
    if (point != f.point) return;
    if (f.kind == "kill") std::raise(SIGKILL);
    if (f.kind == "full") fail(ExitCode::resource, "no space left on device (injected at ", point, ")");
  };
}

}  // namespace hexad::app
