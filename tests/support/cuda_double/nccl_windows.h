// Windows of NCCL's double.
#pragma once

#include <nccl.h>

#include <vector>

/// The structure behind ncclWindow_t: the address of the window of each rank. The double's ranks are threads, so these
/// addresses are valid on all of its devices. Empty if windows are not mapped (NcclChange::no_mapped_windows()).
struct ncclWindow_vidmem {
  std::vector<const char*> begins;
};
