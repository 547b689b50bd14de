#include "layers/moe/pass/pass_work.h"

#include "framework/base/error.h"

namespace hexad::moe {
namespace {

[[noreturn]] void missing(std::string_view what) {
  base::fail_invariant(base::cat("[moe] the pass has no work for ", what));
}

}  // namespace

void PassWork::gather(Stream&) { missing("gather"); }
RowSource PassWork::pack_inputs(Stream&, size_t) { missing("pack_inputs"); }
void PassWork::fetch(Stream&, size_t) { missing("fetch"); }
void PassWork::offload(Stream&, size_t) { missing("offload"); }
void PassWork::weight_gradients(Stream&, size_t) { missing("weight_gradients"); }
void PassWork::accept(Stream&, size_t, Rows) { missing("accept"); }

}  // namespace hexad::moe
