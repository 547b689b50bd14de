// Identity of this program, to check that all processes run the same program.
#pragma once

#include <string>

#include "framework/base/file_work.h"

namespace hexad::train {

/// Returns the XXH3-128 digest of this program's file as 32 hexadecimal digits. Reports the bytes read to `work`.
std::string digest_of_program(const base::FileWork& work = {});

/// Returns the version, architecture and digest of this program: "hexad 0.5.0 for x86-64-v3, digest 0123...".
std::string program_identity(const base::FileWork& work = {});

}  // namespace hexad::train
