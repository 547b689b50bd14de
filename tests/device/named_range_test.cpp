// Named ranges, observed by a test double of a profiler. NVTX loads the double at NVTX's first call.
#define NVTX_STATIC_INJECTION_IMPL  // this file defines the injection
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

#include "framework/device/context.h"
#include "framework/schedule/executor.h"

namespace hexad::tests {
namespace {

std::vector<std::string> told;

int NVTX_API push(const char* name) {
  told.push_back(std::string("begin ") + name);
  return 0;
}
int NVTX_API pop() {
  told.emplace_back("end");
  return 0;
}

int NVTX_API take_over(NvtxGetExportTableFunc_t tables) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &count)) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

using device::Lane;

TEST(NamedRange, TasksOfADeviceHaveTheirNames) {
  schedule::TaskGraph graph;
  const auto nothing = [](device::Stream&) { return device::Event(); };
  const auto sent = graph.add({Lane::inter, "S0", {}}, {}, nothing);
  graph.add({Lane::compute, "C0", {}}, {sent}, nothing);

  device::DeviceContext host;
  schedule::execute(graph, host);
  EXPECT_EQ(told, std::vector<std::string>());

  device::DeviceContext context(device::ContextOptions{.kind = device::DeviceKind::emulated});
  schedule::execute(graph, context);
  EXPECT_EQ(told, (std::vector<std::string>{"begin S0", "end", "begin C0", "end"}));
}

}  // namespace
}  // namespace hexad::tests

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = hexad::tests::take_over;
}
