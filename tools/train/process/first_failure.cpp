#include "tools/train/process/first_failure.h"

#include "parallel/comm/text_collectives.h"

namespace hexad::train {

void throw_first(const base::Failure& mine, const comm::ProcessGroup& world) {
  device::DeviceContext host;
  if (const auto first = comm::first_text(mine.text, static_cast<int>(mine.code), world, host))
    base::fail(static_cast<base::ExitCode>(first->code), first->text);
}

}  // namespace hexad::train
