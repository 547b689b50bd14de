#include "framework/kernels/cpu/attention.h"
#include "framework/kernels/cpu/families.h"

namespace hexad::kernels {

const KernelTable cpu_table = cpu::make_table(
    {.forward = cpu::attention_forward, .backward = cpu::attention_backward, .merge = cpu::attention_merge});

}  // namespace hexad::kernels
