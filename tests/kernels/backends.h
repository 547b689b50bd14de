// Backends under test in a program: the CPU's table and the reference, or the CUDA table (tests/gpu).
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "framework/kernels/kernel_table.h"

namespace hexad::tests {

/// Kernel table, and the kind of device whose tensors the table accepts.
struct Backend {
  std::string name;
  const kernels::KernelTable* table;
  device::DeviceKind kind;

  friend std::ostream& operator<<(std::ostream& out, const Backend& b) { return out << b.name; }
};

std::vector<Backend> backends_under_test();

}  // namespace hexad::tests
