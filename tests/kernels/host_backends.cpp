#include "tests/kernels/backends.h"

namespace hexad::tests {

std::vector<Backend> backends_under_test() {
  return {{"cpu", &kernels::cpu_table, device::DeviceKind::cpu},
          {"reference", &kernels::reference_table, device::DeviceKind::cpu}};
}

}  // namespace hexad::tests
